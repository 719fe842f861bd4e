/* One call of one verb at K = V = 128, for counting its instructions: count VERB FAMILY. */
#include "bench/world.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    bench_spec spec;
  } cases[] = {
      {"prefill", {.verb = BENCH_PREFILL, .T = 64, .numerics = RD_EXACT}},
      {"prefill_heads", {.verb = BENCH_PREFILL, .T = 32, .numerics = RD_EXACT, .level = BENCH_L3}},
      {"prefill_fast", {.verb = BENCH_PREFILL, .T = 64, .numerics = RD_FAST}},
      {"decode", {.verb = BENCH_DECODE, .T = 1, .numerics = RD_EXACT}},
      {"verify", {.verb = BENCH_VERIFY, .T = 8, .numerics = RD_EXACT}},
      {"verify_fast", {.verb = BENCH_VERIFY, .T = 8, .numerics = RD_FAST}},
      {"commit", {.verb = BENCH_COMMIT, .T = 8, .accepted = 4, .numerics = RD_EXACT}},
  };
  for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    bench_spec spec = cases[i].spec;
    spec.axis = strcmp(argv[2], "GDN") == 0 ? RD_PER_HEAD : RD_PER_CHANNEL;
    spec.isa_mask = RD_ISA_SCALAR | RD_ISA_AVX2;
    spec.threads = 1;
    bench_world *w = bench_world_open(&spec, 0);
    if (!w || bench_world_run(w) != RD_OK) return 1;
    /* The numbers of the floor: vector operations of 8 lanes on the states. */
    const double per = cases[i].spec.numerics == RD_FAST ? (spec.verb == BENCH_PREFILL ? 3 : 2) : 4;
    const double tokens = spec.verb == BENCH_COMMIT ? spec.accepted / 2.0
                          : spec.verb == BENCH_VERIFY && spec.numerics == RD_EXACT ? spec.T - 0.5
                                                                                   : spec.T;
    printf("%.0f\n", per * tokens * (double)(w->B * w->Hv) * BENCH_DIM * BENCH_DIM / 8);
    bench_world_close(w);
    return 0;
  }
  fprintf(
      stderr,
      "usage: count prefill|prefill_heads|prefill_fast|decode|verify|verify_fast|commit KDA|GDN\n");
  return 2;
}
