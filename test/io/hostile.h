/* Files in memory that a reader must refuse or take. */
#ifndef RD_TEST_IO_HOSTILE_H
#define RD_TEST_IO_HOSTILE_H

#include "io/io.h"
#include "unit.h"

typedef struct image {
  unsigned char bytes[4096];
  size_t size;
} image;

typedef io_status (*reader)(const void *bytes, size_t size, io_file *file, io_error *err);

/* Reads an exact-size copy on the heap, at an odd address, so that a sanitizer sees one byte of
 * overrun. */
io_status read_copy(reader read, const void *bytes, size_t size, io_file *file, io_error *err);

/* `what` is printed when it fails. */
void must_refuse(reader read, const image *im, const char *what, const char *said);
void must_accept(reader read, const image *im, const char *what, io_file *file);

/* Every shorter image is refused; every single flipped bit is refused or gives a good file. */
void must_survive(reader read, image *im);

#endif
