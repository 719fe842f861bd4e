/* redelta/redelta.h - everything. SPDX-License-Identifier: Apache-2.0
 *
 * A complete program (two tokens of Gated DeltaNet, one head, printed):
 *
 *   #include <redelta/redelta.h>
 *   #include <stdio.h>
 *   int main(void) {
 *     float q[2][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}}, k[2][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}};
 *     float v[2][3] = {{1, 2, 3}, {4, 5, 6}}, beta[2] = {1, 0.5f}, g[2] = {0, -0.1f};
 *     float state[4 * 3] = {0}, out[2][3], final_state[4 * 3];
 *     int32_t lengths[1] = {2};
 *     rd_context *ctx;
 *     if (rd_context_create(NULL, &ctx) != RD_OK) return 1;
 *     rd_chunk_gated_delta_rule_params p;
 *     rd_chunk_gated_delta_rule_init(&p);
 *     p.query = rd_tensor_contiguous(q, RD_F32, 4, (int64_t[]){1, 1, 2, 4});
 *     p.key = rd_tensor_contiguous(k, RD_F32, 4, (int64_t[]){1, 1, 2, 4});
 *     p.value = rd_tensor_contiguous(v, RD_F32, 4, (int64_t[]){1, 1, 2, 3});
 *     p.beta = rd_tensor_contiguous(beta, RD_F32, 3, (int64_t[]){1, 1, 2});
 *     p.state = rd_tensor_contiguous(state, RD_F32, 4, (int64_t[]){1, 1, 4, 3});
 *     p.actual_seq_lengths = rd_tensor_contiguous(lengths, RD_I32, 1, (int64_t[]){1});
 *     p.g = rd_tensor_contiguous(g, RD_F32, 3, (int64_t[]){1, 1, 2});
 *     p.out = rd_tensor_contiguous(out, RD_F32, 4, (int64_t[]){1, 1, 2, 3});
 *     p.final_state = rd_tensor_contiguous(final_state, RD_F32, 4, (int64_t[]){1, 1, 4, 3});
 *     if (rd_chunk_gated_delta_rule(ctx, &p) != RD_OK) return puts(rd_last_error(ctx)), 1;
 *     printf("%g %g %g\n", (double)out[1][0], (double)out[1][1], (double)out[1][2]); // 2 2.5 3
 *     rd_context_destroy(ctx);
 *   }
 */
#ifndef REDELTA_REDELTA_H
#define REDELTA_REDELTA_H

#include "redelta/version.h"
#include "redelta/types.h"
#include "redelta/exec.h"
#include "redelta/core.h"
#include "redelta/operators.h"

#ifdef __cplusplus
extern "C" {
#endif

/* RD_VERSION_STRING of the library that is running. */
RD_API const char *rd_version(void);

#ifdef __cplusplus
}
#endif
#endif
