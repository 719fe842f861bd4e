/* The walk of the `commit` kernels over rows and keys, the same for every instruction set. Included
 * once by a kernel file, after it has defined
 *
 *   enum { ROWS, KEYS }                      a tile that stays in registers while records pass over it
 *   tile(g, row, c, rows, full, decay)       rows <= ROWS rows at key c; full: all KEYS keys exist;
 *                                            decay: g->a is given
 *
 * Rows come from memory in two steps, 8 KiB ahead into the first cache and 32 KiB ahead into the
 * second; past the block's end they are those of the next item, or nothing new. */
RDI_INLINE const float *rows_ahead(const rdi_commit_args *g, int64_t row, int64_t floats) {
  const int64_t at = row * g->in_stride + floats, all = g->R * g->in_stride;
  if (at < all) return g->s_in + at;
  return g->next ? g->next + (at - all) : g->s_in;
}

RDI_INLINE void run(const rdi_commit_args *g, int decay) {
  int64_t row = 0;
  for (; row + ROWS <= g->R; row += ROWS) {
    const char *near = (const char *)rows_ahead(g, row, 2048);
    const char *far = (const char *)rows_ahead(g, row, 8192);
    int64_t c = 0;
    for (; c + KEYS <= g->K; c += KEYS) {
      for (int line = 0; line < ROWS * KEYS / 16; line++) {
        __builtin_prefetch(near + (ROWS * c + 16 * line) * 4, 0, 3);
        __builtin_prefetch(far + (ROWS * c + 16 * line) * 4, 0, 2);
      }
      tile(g, row, c, ROWS, 1, decay);
    }
    if (c < g->K) tile(g, row, c, ROWS, 0, decay);
  }
  for (; row < g->R; row++)
    for (int64_t c = 0; c < g->K; c += KEYS) tile(g, row, c, 1, 0, decay);
}

RDI_INLINE void commit_rows(const rdi_commit_args *g) {
  if (g->a)
    run(g, 1);
  else
    run(g, 0);
}
