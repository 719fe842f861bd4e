/* The checker: happens-before, flags and initialisation, one instruction at a time. */
#ifndef REDELTA_NPU_CHECK_CHECKER_H
#define REDELTA_NPU_CHECK_CHECKER_H

#include "npu/check/order.h"
#include "npu/check/ranges.h"
#include "npu/check/rules.h"

typedef struct checker checker;
checker *rdn_checker_new(const rd_npu_launch *l, rdn_rules rules);
void rdn_checker_reset(checker *k); /* for the next program */
void rdn_checker_free(checker *k);
/* One instruction in program order; position = its index in the program.  findings and sites are
 * the caller's; an instruction that was held is judged, and reported, in a later step. */
void rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f);
void rdn_checker_finish(checker *k, finding_list *f);
/* What is worth knowing and no fault.  The caller frees it. */
finding_list rdn_checker_take_notes(checker *k);
const rdn_order *rdn_checker_order(const checker *k);
bool rdn_checker_failed(const checker *k); /* out of memory */

const range_set *rdn_checker_ranges(const checker *k, uint32_t tensor, range_kind kind);

#endif
