/* Runs a fuzz target on files, on damaged copies of them and on random bytes.
 *   fuzz_TARGET [--damage N] [--random N] [--seed S] [FILE|FOLDER]...
 * Prints the seed; the input that crashes is left in fuzz-failure.bin and can be run alone. */
#include "fuzz.h"
#include "io/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 };

static long runs;
static const uint8_t *current;
static size_t current_size;

/* Keeps the input that broke something. */
static void on_crash(int number) {
  int fd = open("fuzz-failure.bin", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0 && write(fd, current, current_size) == (ssize_t)current_size) close(fd);
  signal(number, SIG_DFL);
  raise(number);
}

static void run(const uint8_t *data, size_t size) {
  /* A copy of its exact size, so that sanitizers see a byte of overrun. */
  uint8_t *copy = malloc(size > 0 ? size : 1);
  if (copy == NULL) exit(3);
  memcpy(copy, data, size);
  current = copy;
  current_size = size;
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  runs++;
}

/* One to four small damages: a bit, a byte, a cut, a repeated piece. */
static size_t damage(uint8_t *data, size_t size, rng r, uint64_t *at) {
  uint32_t count = 1 + rng_below(r, (*at)++, 4);
  for (uint32_t i = 0; i < count && size > 0; i++) {
    uint32_t place = rng_below(r, (*at)++, (uint32_t)size);
    switch (rng_below(r, (*at)++, 4)) {
    case 0:
      data[place] ^= (uint8_t)(1u << rng_below(r, (*at)++, 8));
      break;
    case 1:
      data[place] = (uint8_t)rng_below(r, (*at)++, 256);
      break;
    case 2:
      size = place;
      break;
    default: {
      uint32_t n = rng_below(r, (*at)++, (uint32_t)size - place) / 2;
      memmove(data + place, data + place / 2, n);
    }
    }
  }
  return size;
}

static void run_file(const char *path, long damages, uint64_t seed) {
  static uint8_t data[LARGEST], copy[LARGEST];
  FILE *f = fopen(path, "rb");
  if (f == NULL) {
    fprintf(stderr, "cannot open %s\n", path);
    exit(3);
  }
  size_t size = fread(data, 1, sizeof data, f);
  fclose(f);
  run(data, size);
  rng r = rng_stream(seed, path);
  uint64_t at = 0;
  for (long i = 0; i < damages; i++) {
    memcpy(copy, data, size);
    run(copy, damage(copy, size, r, &at));
  }
}

static void run_path(const char *path, long damages, uint64_t seed) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
    run_file(path, damages, seed);
    return;
  }
  DIR *dir = opendir(path);
  if (dir == NULL) exit(3);
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
    char name[4096];
    if (e->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, e->d_name);
    run_file(name, damages, seed);
  }
  closedir(dir);
}

static void run_random(long count, uint64_t seed) {
  uint8_t data[512];
  rng r = rng_stream(seed, "random");
  uint64_t at = 0;
  for (long i = 0; i < count; i++) {
    size_t size = rng_below(r, at++, sizeof data);
    for (size_t j = 0; j < size; j++) data[j] = (uint8_t)rng_bits(r, at++);
    run(data, size);
  }
}

int main(int argc, char **argv) {
  long damages = 0, random = 0;
  uint64_t seed = 1;
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (strcmp(argv[first], "--damage") == 0) damages = strtol(argv[first + 1], NULL, 10);
    if (strcmp(argv[first], "--random") == 0) random = strtol(argv[first + 1], NULL, 10);
    if (strcmp(argv[first], "--seed") == 0) seed = strtoull(argv[first + 1], NULL, 10);
  }
  signal(SIGABRT, on_crash);
  signal(SIGSEGV, on_crash);
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int i = first; i < argc; i++) run_path(argv[i], damages, seed);
  run_random(random, seed);
  printf("%ld passed, 0 failed, 0 skipped\n", runs);
  return 0;
}
