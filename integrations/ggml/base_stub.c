/* Stands for libggml-base when the plugin is linked: names only; the host has the library. SPDX-License-Identifier: Apache-2.0 */
#define NAME(f)                                                                                    \
  void f(void);                                                                                    \
  void f(void) {}
NAME(ggml_op_name)
NAME(ggml_graph_n_nodes)
NAME(ggml_graph_node)
NAME(ggml_backend_buft_is_host)
NAME(ggml_backend_cpu_buffer_type)
NAME(ggml_version)
NAME(ggml_gated_delta_net)
