/* C += sum of n products A_i B_i in tiles: a [n][16][32], b [n][16][16 pairs], c [16][16]; `rows` rows of A
 * and C. */
#ifndef RDT_OPS_TILE_H
#define RDT_OPS_TILE_H

#include <stdint.h>

void tile_products_emulated(const uint16_t *a, const uint16_t *b, float *c, int rows, int n);
void tile_products_real(const uint16_t *a, const uint16_t *b, float *c, int rows, int n);

#endif
