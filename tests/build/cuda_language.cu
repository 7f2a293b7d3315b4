static_assert(__cplusplus >= 202002L, "CUDA sources must be compiled as C++20");
