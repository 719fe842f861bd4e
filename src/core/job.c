/* Sequences and views of a job. */
#include "core/job.h"

#include "core/walk.h"
#include "util/tensor.h"

rdi_seqs rdi_seqs_of(int64_t B, int64_t T, const rd_tensor *cu, const rd_tensor *lengths) {
  rdi_seqs s = {.B = B, .T = T};
  if (cu && cu->dtype != RD_ABSENT) {
    s.cu = cu->data;
    s.is64 = cu->dtype == RD_I64;
  } else if (lengths && lengths->dtype != RD_ABSENT) {
    s.lengths = lengths->data;
    s.is64 = lengths->dtype == RD_I64;
  }
  return s;
}

int64_t rdi_seq_start(const rdi_seqs *s, int64_t b) {
  return s->cu ? rdi_index_at(s->cu, s->is64, b) : 0;
}

int64_t rdi_seq_length(const rdi_seqs *s, int64_t b) {
  if (s->cu) return rdi_index_at(s->cu, s->is64, b + 1) - rdi_index_at(s->cu, s->is64, b);
  return s->lengths ? rdi_index_at(s->lengths, s->is64, b) : s->T;
}

const int32_t *rdi_seq_parents(const rdi_seqs *s, int64_t b) {
  return s->parents.base ? s->parents.base + b * s->parents.sb + rdi_seq_start(s, b) : NULL;
}

const int32_t *rdi_record_parents(const rdi_recs *recs, int64_t b) {
  return recs->parents.base ? recs->parents.base + b * recs->parents.sb : NULL;
}

int64_t rdi_replayed(const rdi_job *job, int64_t b) {
  if (!job->accepted) return 0;
  const int32_t *parents = rdi_record_parents(&job->prev, b);
  return parents ? rdi_path_length(parents, (int64_t)job->accepted[b] - 1) : job->accepted[b];
}

rdi_view rdi_view_of(const rd_tensor *t, int b, int tt, int h) {
  rdi_view v = {0};
  if (!t || t->dtype == RD_ABSENT) return v;
  v.base = t->data;
  v.dtype = t->dtype;
  v.sb = b < 0 ? 0 : t->stride[b];
  v.st = tt < 0 ? 0 : t->stride[tt];
  v.sh = h < 0 ? 0 : t->stride[h];
  const int last = t->rank - 1, row = last != b && last != tt && last != h;
  v.si = row && t->shape[last] > 1 ? t->stride[last] : 1;
  return v;
}
