/* fold: k / P, k P and q P for FAST, AVX2. */
#include "kernels/avx2/column.h"
#include "kernels/fold_columns.h"
#include "kernels/registry.h"

int64_t rdi_fold_avx2_16(const rdi_fold_args *g) { return rdi_fold(g); }
