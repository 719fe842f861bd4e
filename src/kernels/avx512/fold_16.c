/* fold: k / P, k P and q P for FAST, AVX-512. */
#include "kernels/avx512/column.h"
#include "kernels/fold_columns.h"
#include "kernels/registry.h"

int64_t rdi_fold_avx512_16(const rdi_fold_args *g) { return rdi_fold(g); }
