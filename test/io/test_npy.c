/* The npy reader against hostile files. */
#include "hostile.h"

#include <stdio.h>

static image make(int major, const char *header, size_t data) {
  size_t n = strlen(header), lead = major == 1 ? 10 : 12;
  image im = {.size = lead + n + data};
  assert_true(im.size <= sizeof im.bytes);
  memcpy(im.bytes, "\x93NUMPY", 6);
  im.bytes[6] = (unsigned char)major;
  im.bytes[8] = (unsigned char)(n & 0xff);
  im.bytes[9] = (unsigned char)(n >> 8);
  memcpy(im.bytes + lead, header, n);
  for (size_t i = 0; i < data; i++) im.bytes[lead + n + i] = (unsigned char)i;
  return im;
}

static io_status npy(const void *bytes, size_t size, io_file *file, io_error *err) {
  return io_npy_parse(bytes, size, "x", file, err);
}

static void refuses(const char *header, size_t data, const char *said) {
  image im = make(1, header, data);
  must_refuse(npy, &im, header, said);
}

static void accepts(int major, const char *header, size_t data, const char *description) {
  image im = make(major, header, data);
  io_file file = {0};
  must_accept(npy, &im, header, &file);
  char text[64];
  io_tensor_describe(&file.tensors[0], text, sizeof text);
  assert_string_equal(text, description);
  for (size_t i = 0; i < data; i++) {
    assert_int_equal(((unsigned char *)file.tensors[0].data)[i], (unsigned char)i);
  }
  io_file_free(&file);
}

static void test_accepts(void **state) {
  (void)state;
  accepts(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", 24,
          "F32 [2, 3]");
  accepts(2, "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }\n", 6, "F16 [3]");
  accepts(3, "{\"descr\":\"<i8\",\"shape\":(),\"fortran_order\":False}", 8, "I64 []");
  accepts(1, "{'shape': (2,0,4), 'descr': '<i4', 'fortran_order': False}", 0, "I32 [2, 0, 4]");
  accepts(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 2), }", 8, "BF16 [2, 2]");
  accepts(1, "{'descr': '|V2', 'fortran_order': False, 'shape': (2, 2,), }", 8, "BF16 [2, 2]");
  accepts(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8, "F64 [1]");
}

static void test_refuses(void **state) {
  (void)state;
  refuses("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, "element type '>f4'");
  refuses("{'descr': '<u4', 'fortran_order': False, 'shape': (1,)}", 4, "element type '<u4'");
  refuses("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 4, "element type '|O'");
  refuses("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4,
          "descr is not a plain");
  refuses("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4, "Fortran order");
  refuses("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "neither True nor False");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", 12, "shape is not a tuple");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "shape is not a tuple");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 4, "shape is not a tuple");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", 8, "shape is not a tuple");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4,
          "fit 64 bits");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", 0,
          "overflows");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0,
          "overflows");
  refuses("{'descr': '<f4', 'fortran_order': False}", 4, "lacks one of");
  refuses("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4,
          "a key twice");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, "unknown key");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, "text after");
  refuses("{'descr': '<f4' 'fortran_order': False, 'shape': ()}", 4, "malformed value");
  refuses("{'descr': '<f\\x34', 'fortran_order': False, 'shape': ()}", 4, "descr is not a plain");
  refuses("'descr'", 4, "not a dictionary");
  refuses("", 4, "not a dictionary");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7,
          "need 8 bytes, the file has 7");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9,
          "need 8 bytes, the file has 9");
}

static void test_preamble(void **state) {
  (void)state;
  io_file file = {0};
  io_error err = {{0}};
  image im = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8);
  must_survive(npy, &im);
  im.bytes[6] = 4;
  assert_int_equal(read_copy(npy, im.bytes, im.size, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "npy version 4.0"));
  im.bytes[6] = 1;
  im.bytes[9] = 0x7f;
  assert_int_equal(read_copy(npy, im.bytes, im.size, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "longer than the file"));
  im.bytes[6] = 2;
  im.bytes[10] = im.bytes[11] = 0x7f;
  assert_int_equal(read_copy(npy, im.bytes, im.size, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "longer than the limit"));
}

/* A failed read keeps the tensor it would have replaced; a good one replaces it. */
static void test_replaces(void **state) {
  (void)state;
  io_file file = {0};
  io_error err = {{0}};
  assert_int_equal(io_file_add(&file, "x", io_dtype_of(RD_F32), 1, (int64_t[]){5}, NULL, &err),
                   IO_OK);
  image im = make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 8);
  assert_int_equal(read_copy(npy, im.bytes, im.size - 1, &file, &err), IO_BAD);
  assert_int_equal(file.tensors[0].shape[0], 5);
  assert_int_equal(read_copy(npy, im.bytes, im.size, &file, &err), IO_OK);
  assert_int_equal(file.count, 1);
  assert_int_equal(file.tensors[0].shape[0], 2);
  assert_int_equal(io_npy_read("does-not-exist.npy", "x", &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "does-not-exist.npy"));
  io_file_free(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accepts),
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_preamble),
      cmocka_unit_test(test_replaces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
