/* bench/probes.h - the probes of this build. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_BENCH_PROBES_H
#define RD_BENCH_PROBES_H

#include "bench/bench.h"

/* Of a probe of the FMA peak: over 200 us, so that interrupts and clock steps do not bias it. */
enum { BENCH_FMA_ROUNDS = 100000 };

extern const bench_probe bench_probe_plain;
#ifdef BENCH_X86
extern const bench_probe bench_probe_avx2, bench_probe_avx512;
#endif

#endif
