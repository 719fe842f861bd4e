/* How work is cut. Nothing here may change a bit of a result: a row's arithmetic does not depend on
 * the rows beside it, and reductions are never split. */
#include "core/cut.h"

#include "util/checked.h"

enum {
  /* State elements (times tokens) worth waking a thread for: about four heads of 128 x 128, one
   * token, three microseconds. */
  SLICE_WORK = 65536
};

int rdi_cut_make(rdi_cut *cut, int64_t threads, int64_t cores, int even, int64_t work, int64_t B,
                 int64_t Hv, int64_t V) {
  static const int64_t sizes[] = {128, 64, 32};
  int64_t heads;
  if (!rdi_mul64(B, Hv, &heads)) return 0;
  int64_t slices = rdi_min64(RDI_SLICES_PER_THREAD * threads, work / SLICE_WORK);
  if (threads == 1 || slices < 1) slices = 1;

  cut->row_block = V;
  cut->blocks = 1;
  for (int i = 0; i < 3 && slices > 1 && heads < 2 * cores; i++) {
    const int64_t items = heads * cut->blocks;
    if (items >= 2 * cores || (even && items % cores == 0)) break;
    if (sizes[i] < V) cut->row_block = sizes[i];
    cut->blocks = (V + cut->row_block - 1) / cut->row_block;
  }
  if (!rdi_mul64(heads, cut->blocks, &cut->items)) return 0;
  cut->slices = rdi_min64(slices, cut->items);
  return 1;
}

static int64_t weight(const rdi_job *job, int64_t b) {
  int64_t tokens = 1;
  if (job->verb != RDI_COMMIT) tokens += rdi_seq_length(&job->seq, b);
  return tokens + rdi_replayed(job, b);
}

void rdi_cut_slices(const rdi_cut *cut, const rdi_job *job, int64_t *start) {
  const int64_t per_sequence = job->m.Hv * cut->blocks;
  double total = 0;
  for (int64_t b = 0; b < job->seq.B; b++) total += (double)(weight(job, b) * per_sequence);
  const double share = total / (double)cut->slices;
  double before = 0;
  int64_t i = 1;
  start[0] = 0;
  for (int64_t b = 0; b < job->seq.B && i < cut->slices; b++) {
    const double w = (double)weight(job, b), here = w * (double)per_sequence;
    for (; i < cut->slices && before + here >= share * (double)i; i++) {
      const int64_t inside = (int64_t)((share * (double)i - before) / w + 0.5);
      start[i] = b * per_sequence + rdi_min64(rdi_max64(inside, 0), per_sequence);
    }
    before += here;
  }
  for (; i <= cut->slices; i++) start[i] = cut->items;
}
