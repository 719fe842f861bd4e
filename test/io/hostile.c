/* Files in memory that a reader must refuse or take. */
#include "hostile.h"

io_status read_copy(reader read, const void *bytes, size_t size, io_file *file, io_error *err) {
  unsigned char *copy = malloc(size + 1);
  assert_non_null(copy);
  if (size > 0) memcpy(copy + 1, bytes, size);
  io_status status = read(copy + 1, size, file, err);
  free(copy);
  return status;
}

void must_refuse(reader read, const image *im, const char *what, const char *said) {
  io_file file = {0};
  io_error err = {{0}};
  io_status status = read_copy(read, im->bytes, im->size, &file, &err);
  if (status != IO_BAD || strstr(err.text, said) == NULL) {
    fail_msg("%s\n  gave %d '%s', expected %d '%s'", what, status, err.text, IO_BAD, said);
  }
  assert_null(file.tensors);
  assert_int_equal(file.count, 0);
}

void must_accept(reader read, const image *im, const char *what, io_file *file) {
  io_error err = {{0}};
  io_status status = read_copy(read, im->bytes, im->size, file, &err);
  if (status != IO_OK) fail_msg("%s\n  gave %d '%s'", what, status, err.text);
}

void must_survive(reader read, image *im) {
  io_file file = {0};
  io_error err;
  for (size_t n = 0; n < im->size; n++) {
    assert_int_equal(read_copy(read, im->bytes, n, &file, &err), IO_BAD);
    assert_null(file.tensors);
  }
  for (size_t bit = 0; bit < 8 * im->size; bit++) {
    im->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    io_status status = read_copy(read, im->bytes, im->size, &file, &err);
    assert_true(status == IO_OK || status == IO_BAD);
    io_file_free(&file);
    im->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
}
