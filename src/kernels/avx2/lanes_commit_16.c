/* lanes_commit: m updates of a state that lies key by key, AVX2. 16 values at a time. */
#include "kernels/avx2/lane.h"
#include "kernels/lanes.h"
#include "kernels/registry.h"

void rdi_lanes_commit_avx2_16(const rdi_commit_args *args) { lanes_commit_rows(args); }
