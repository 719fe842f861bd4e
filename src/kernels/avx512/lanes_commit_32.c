/* lanes_commit: m updates of a state that lies key by key, AVX-512. 32 values at a time. */
#include "kernels/avx512/lane.h"
#include "kernels/lanes.h"
#include "kernels/registry.h"

void rdi_lanes_commit_avx512_32(const rdi_commit_args *args) { lanes_commit_rows(args); }
