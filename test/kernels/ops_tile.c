/* One whole product of tiles, compiled twice: RDI_EMULATE_AMX gives the emulated one. */
#include "ops_tile.h"

#include "kernels/amx/tile.h"

#ifdef RDI_EMULATE_AMX
#define tile_products tile_products_emulated
#else
#define tile_products tile_products_real
#endif

void tile_products(const uint16_t *a, const uint16_t *b, float *c, int rows, int n) {
  rdi_tiles t;
  rdi_tiles_whole(&t);
  rdi_tiles_rows(&t, 0, rows);
  rdi_tiles_rows(&t, 1, rows);
  RDI_TILES_BEGIN(&t);
  RDI_TILE_LOAD(&t, 0, c, 64);
  for (int i = 0; i < n; i++) {
    RDI_TILE_LOAD(&t, 1, a + i * 512, 64);
    RDI_TILE_LOAD(&t, 2, b + i * 512, 64);
    RDI_TILE_PRODUCT(&t, 0, 1, 2);
  }
  RDI_TILE_STORE(&t, 0, c, 64);
  RDI_TILES_END(&t);
}
