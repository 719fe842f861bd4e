/* The tile operations of AMX, real or emulated (RDI_EMULATE_AMX: tiles in memory), with the same bits.
 *
 *   rdi_tiles t;                       eight tiles, each rows x 64 bytes
 *   rdi_tiles_whole(&t);               16 rows in every tile ...
 *   rdi_tiles_rows(&t, 2, 5);          ... but 5 in tile 2
 *   RDI_TILES_BEGIN(&t);               from here to END: no other code may use tiles on this thread
 *   RDI_TILE_ZERO(&t, 0); RDI_TILE_LOAD(&t, 4, a, stride); RDI_TILE_LOAD(&t, 6, b, 64);
 *   RDI_TILE_PRODUCT(&t, 0, 4, 6);     tile 0 += tile 4 . tile 6
 *   RDI_TILE_STORE(&t, 0, c, stride);  strides in bytes; tile numbers are constants
 *   RDI_TILES_END(&t);                 releases: the thread has no tile state to be saved any more
 *
 * Product (TDPBF16PS): row m of A is 32 bf16 along k, row i of B is 16 pairs (k = 2i, 2i+1), one per
 * column n, C is f32. With e and o the chains of fma over even and odd k, each in rising order from +0,
 *   C[m][n] = C[m][n] + (e + o)
 * round to nearest even, subnormals read and written as zeros, whatever MXCSR says. That is the order W1.
 * The emulation does the same under the modes that cpu/fpenv.h sets for every slice.
 *
 * Only files of kernels/amx include this. The process must have the system's permission (cpu/amx.h). */
#ifndef RDI_KERNELS_AMX_TILE_H
#define RDI_KERNELS_AMX_TILE_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RDI_TILES = 8, RDI_TILE_ROWS = 16, RDI_TILE_ROW = 64 /* bytes */ };

/* What LDTILECFG reads: palette 1. */
typedef struct rdi_tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} rdi_tile_config;
_Static_assert(sizeof(rdi_tile_config) == 64, "LDTILECFG reads 64 bytes");

typedef struct rdi_tiles {
  _Alignas(64) rdi_tile_config config;
#ifdef RDI_EMULATE_AMX
  _Alignas(64) uint32_t tile[RDI_TILES][RDI_TILE_ROWS][RDI_TILE_ROW / 4];
#endif
} rdi_tiles;

static inline void rdi_tiles_rows(rdi_tiles *t, int tile, int rows) {
  t->config.rows[tile] = (uint8_t)rows;
}

static inline void rdi_tiles_whole(rdi_tiles *t) {
  memset(&t->config, 0, sizeof t->config);
  t->config.palette = 1;
  for (int i = 0; i < RDI_TILES; i++) {
    t->config.row_bytes[i] = RDI_TILE_ROW;
    t->config.rows[i] = RDI_TILE_ROWS;
  }
}

#ifdef RDI_EMULATE_AMX

/* Rows past those of the tile are zero after every write, as in the processor. */
static inline void rdi_tile_zero(rdi_tiles *t, int dst) {
  memset(t->tile[dst], 0, sizeof t->tile[dst]);
}

static inline void rdi_tile_load(rdi_tiles *t, int dst, const void *base, ptrdiff_t stride) {
  rdi_tile_zero(t, dst);
  for (int i = 0; i < t->config.rows[dst]; i++)
    memcpy(t->tile[dst][i], (const char *)base + i * stride, RDI_TILE_ROW);
}

static inline void rdi_tile_store(const rdi_tiles *t, int src, void *base, ptrdiff_t stride) {
  for (int i = 0; i < t->config.rows[src]; i++)
    memcpy((char *)base + i * stride, t->tile[src][i], RDI_TILE_ROW);
}

static inline void rdi_tile_product(rdi_tiles *t, int c, int a, int b) {
  const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
  for (int m = 0; m < t->config.rows[c]; m++) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int k = 0; k < RDI_TILE_ROWS; k++) {
      const __m512i x = _mm512_set1_epi32((int)t->tile[a][m][k]);
      const __m512i y = _mm512_load_si512(t->tile[b][k]);
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)),
                            _mm512_castsi512_ps(_mm512_and_si512(y, high)), odd);
    }
    const __m512 old = _mm512_castsi512_ps(_mm512_load_si512(t->tile[c][m]));
    _mm512_store_si512(t->tile[c][m],
                       _mm512_castps_si512(_mm512_add_ps(old, _mm512_add_ps(even, odd))));
  }
}

#define RDI_TILES_BEGIN(t)                memset((t)->tile, 0, sizeof(t)->tile)
#define RDI_TILES_END(t)                  ((void)(t))
#define RDI_TILE_ZERO(t, dst)             rdi_tile_zero(t, dst)
#define RDI_TILE_LOAD(t, dst, p, stride)  rdi_tile_load(t, dst, p, stride)
#define RDI_TILE_STORE(t, src, p, stride) rdi_tile_store(t, src, p, stride)
#define RDI_TILE_PRODUCT(t, c, a, b)      rdi_tile_product(t, c, a, b)

#else

/* Compilers' tile loads do not say that they read memory: without the fence a store to it may sink below
 * them. */
#define RDI_TILE_DO(t, ...)                                                                        \
  do {                                                                                             \
    (void)(t);                                                                                     \
    __VA_ARGS__;                                                                                   \
  } while (0)
#define RDI_TILE_FENCE()      __asm__ volatile("" ::: "memory")
#define RDI_TILES_BEGIN(t)    RDI_TILE_DO(t, RDI_TILE_FENCE(); _tile_loadconfig(&(t)->config))
#define RDI_TILES_END(t)      RDI_TILE_DO(t, _tile_release())
#define RDI_TILE_ZERO(t, dst) RDI_TILE_DO(t, _tile_zero(dst))
#define RDI_TILE_LOAD(t, dst, p, stride)                                                           \
  RDI_TILE_DO(t, RDI_TILE_FENCE(); _tile_loadd(dst, p, stride))
#define RDI_TILE_STORE(t, src, p, stride)                                                          \
  RDI_TILE_DO(t, _tile_stored(src, p, stride); RDI_TILE_FENCE())
#define RDI_TILE_PRODUCT(t, c, a, b) RDI_TILE_DO(t, _tile_dpbf16ps(c, a, b))

#endif

#endif
