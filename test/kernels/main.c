/* Every kernel of the registry against the float specification, bit by bit.
 *
 *   harness [--function SLOT|NAME] [--isa NAME] [--seed N] [--repeat N] [--every N] [--case N]
 * [--all]
 *           [--bench] [--list]
 *
 * --repeat draws per shape (default 1); --all takes every token count and state mode instead; of
 * all these cases --every runs each N-th (emulators are slow). Exit status 0: nothing failed; 1: a
 * kernel failed; 2: bad usage. */
#include "harness.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

typedef void (*check_fn)(harness *, const rdi_kernel_entry *const *, int);

static const check_fn checks[RDI_SLOTS] = {check_rows,         check_commit, check_prep,
                                           check_widen,        check_narrow, check_lanes,
                                           check_lanes_commit, check_project};

static void run_slot(harness *h, rdi_slot slot) {
  const rdi_kernel_entry *entries[8];
  int count = 0;
  for (int32_t i = 0; i < rdi_registry_count() && count < 8; i++) {
    const rdi_kernel_entry *e = rdi_registry_entry(i);
    if (e->slot == slot && harness_wants(h, e)) entries[count++] = e;
  }
  if (count == 0) return;
  const report before = h->tally;
  h->tally = (report){.skipped = before.skipped};
  checks[slot](h, entries, count);
  printf("%-7s", rdi_slot_name(slot));
  for (int i = 0; i < count; i++) printf(" %s", entries[i]->name);
  printf(": %ld cases, %ld failed\n", h->tally.passed + h->tally.failed, h->tally.failed);
  h->tally.passed += before.passed, h->tally.failed += before.failed;
}

/* FAST has kernels where an instruction set gives it some; they are asked for as fast, fold, pairs,
 * spread or by name. */
static void run_fast(harness *h) {
  for (uint32_t isa = RD_ISA_SCALAR; isa <= RD_ISA_AMX; isa <<= 1) {
    rdi_kernels k = {0};
    rdi_kernels_select(&k, isa);
    if ((isa & h->isa) == 0 || k.fast.fold == NULL) continue;
    const report before = h->tally;
    h->tally = (report){0};
    check_fast(h, &k, isa);
    if (h->tally.passed + h->tally.failed > 0)
      printf("fast    %s %s: %ld cases, %ld failed\n", k.serving[RDI_SLOT_pairs].name,
             k.serving[RDI_SLOT_spread].name, h->tally.passed + h->tally.failed, h->tally.failed);
    h->tally.passed += before.passed, h->tally.failed += before.failed;
    h->tally.skipped += before.skipped;
  }
}

static int usage(const char *self) {
  fprintf(stderr,
          "usage: %s [--function SLOT|NAME] [--isa NAME] [--seed N] [--repeat N] [--every N]\n"
          "       [--case N] [--all] [--bench] [--list]\n",
          self);
  return 2;
}

static int parse_isa(harness *h, const char *name) {
  for (uint32_t isa = RD_ISA_SCALAR; isa <= RD_ISA_AMX; isa <<= 1)
    if (strcmp(name, isa_name(isa)) == 0) return h->isa = isa, 1;
  if (strcmp(name, isa_name(RD_ISA_SOFT)) == 0) return h->isa = RD_ISA_SOFT, 1;
  return 0;
}

static int known(const harness *h) {
  static const char *const fast[] = {"fast", "fold", "pairs", "spread"};
  const harness any = {.function = h->function, .isa = RD_ISA_ALL};
  for (int32_t i = 0; i < rdi_registry_count(); i++)
    if (harness_wants(&any, rdi_registry_entry(i))) return 1;
  for (int i = 0; i < 4; i++)
    if (strncmp(h->function, fast[i], strlen(fast[i])) == 0) return 1;
  return 0;
}

/* What this machine or this build cannot run is named, so that nobody takes it for tested. */
static void report_missing(harness *h) {
  for (uint32_t isa = RD_ISA_SCALAR; isa <= RD_ISA_AMX; isa <<= 1) {
    if ((isa & h->isa) == 0 || (isa & rdi_registry_isas()) != 0) continue;
    printf("%s: not run (this build has no such kernels)\n", isa_name(isa));
    h->tally.skipped++;
  }
  for (int32_t i = 0; i < rdi_registry_count(); i++) {
    const rdi_kernel_entry *e = rdi_registry_entry(i);
    if (!harness_wants(h, e) || (e->isa & isa_usable()) != 0) continue;
    printf("%s: not run (this machine lacks %s)\n", e->name, isa_name(e->isa));
    h->tally.skipped++;
  }
}

int main(int argc, char **argv) {
  harness h = {
      .seed = 1, .isa = RD_ISA_ALL, .only_case = -1, .repeat = 1, .every = 1, .self = argv[0]};
  static const struct option options[] = {{"function", required_argument, NULL, 'f'},
                                          {"isa", required_argument, NULL, 'i'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"every", required_argument, NULL, 'e'},
                                          {"case", required_argument, NULL, 'c'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"bench", no_argument, NULL, 'b'},
                                          {"list", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
  int timing = 0, list = 0;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (o) {
    case 'f':
      h.function = optarg;
      break;
    case 'i':
      if (!parse_isa(&h, optarg)) return usage(argv[0]);
      break;
    case 's':
      h.seed = strtoull(optarg, NULL, 0);
      break;
    case 'r':
      h.repeat = atoi(optarg);
      break;
    case 'e':
      h.every = atoi(optarg);
      break;
    case 'c':
      h.only_case = atoll(optarg);
      break;
    case 'a':
      h.all = 1;
      break;
    case 'b':
      timing = 1;
      break;
    case 'l':
      list = 1;
      break;
    default:
      return usage(argv[0]);
    }
  if (optind < argc || h.repeat < 1 || h.every < 1) return usage(argv[0]);
  if (!known(&h)) return fprintf(stderr, "no slot or kernel of that name\n"), usage(argv[0]);
  if (!timing && !list) report_missing(&h);
  h.isa &= isa_usable();
  for (int32_t i = 0; (timing || list) && i < rdi_registry_count(); i++) {
    const rdi_kernel_entry *e = rdi_registry_entry(i);
    if (list) printf("%s %s\n", e->name, e->file);
    if (timing && harness_wants(&h, e)) bench(e);
  }
  if (timing || list) return 0;
  printf("seed %llu\n", (unsigned long long)h.seed);
  for (int slot = 0; slot < RDI_SLOTS; slot++) run_slot(&h, (rdi_slot)slot);
  run_fast(&h);
  return report_end(&h.tally);
}
