#include "host/plan/plan_support.hpp"

using namespace plan_test;
using ai::BiasKind;

namespace {

struct BiasCase {
  std::int64_t m;
  std::int64_t n;
  Tensor bias;
  BiasKind kind;
  std::int64_t count;
  std::int64_t stride;
};

/// Plans `bias` as bias and as gBias.
void check_bias(const BiasCase& wanted) {
  CAPTURE(wanted.m);
  CAPTURE(wanted.n);
  GemmForward forward = small_forward(wanted.m, wanted.n, kK);
  forward.bias = wanted.bias;
  const Result<GemmPlan> forth = plan(forward);
  REQUIRE_MESSAGE(forth.ok(), forth.status().message());
  GemmBackward backward = small_backward(wanted.m, wanted.n, kK);
  backward.gBias = wanted.bias;
  const Result<GemmPlan> back = plan(backward);
  REQUIRE_MESSAGE(back.ok(), back.status().message());
  CHECK(std::string(to_string(forth->bias_kind())) == to_string(wanted.kind));
  CHECK(std::string(to_string(back->bias_kind())) == to_string(wanted.kind));
  for (const Tensor& held : {*forth->forward().bias, back->backward().gBias->tensor}) {
    CHECK(held.desc.shape == Extents{wanted.count});
    CHECK(held.desc.stride == Extents{wanted.stride});
    CHECK(held.data == wanted.bias.data);
  }
}

Tensor with_strides(Tensor tensor, Extents strides) {
  tensor.desc.stride = strides;
  return tensor;
}

}  // namespace

TEST_CASE("C11 the kind of a bias follows its shape, also where M = N") {
  check_bias({5, 7, matrix(3, {1, 1}), BiasKind::Scalar, 1, 1});
  check_bias({5, 7, vector(3, 1), BiasKind::Scalar, 1, 1});
  check_bias({5, 7, matrix(3, {1, 7}), BiasKind::PerN, 7, 1});
  check_bias({5, 7, vector(3, 7), BiasKind::PerN, 7, 1});
  check_bias({5, 7, matrix(3, {5, 1}), BiasKind::PerM, 5, 1});
  check_bias({5, 7, vector(3, 5), BiasKind::PerM, 5, 1});
  check_bias({8, 8, matrix(3, {1, 8}), BiasKind::PerN, 8, 1});
  check_bias({8, 8, matrix(3, {8, 1}), BiasKind::PerM, 8, 1});
  check_bias({8, 8, vector(3, 8), BiasKind::PerN, 8, 1});
}

TEST_CASE("C11 a bias of one element is Scalar, also where M or N is 1") {
  check_bias({1, 7, matrix(3, {1, 1}), BiasKind::Scalar, 1, 1});
  check_bias({5, 1, matrix(3, {1, 1}), BiasKind::Scalar, 1, 1});
  check_bias({5, 1, vector(3, 1), BiasKind::Scalar, 1, 1});
  check_bias({1, 1, matrix(3, {1, 1}), BiasKind::Scalar, 1, 1});
  check_bias({1, 7, matrix(3, {1, 7}), BiasKind::PerN, 7, 1});
  check_bias({5, 1, matrix(3, {5, 1}), BiasKind::PerM, 5, 1});
  check_bias({5, 1, vector(3, 5), BiasKind::PerM, 5, 1});
}

TEST_CASE("C11 the kind of a bias over an empty axis") {
  check_bias({0, 7, matrix(3, {1, 7}), BiasKind::PerN, 7, 1});
  check_bias({0, 7, matrix(3, {0, 1}), BiasKind::PerM, 0, 1});
  check_bias({5, 0, matrix(3, {1, 0}), BiasKind::PerN, 0, 1});
  check_bias({5, 0, matrix(3, {5, 1}), BiasKind::PerM, 5, 1});
  check_bias({0, 0, matrix(3, {1, 1}), BiasKind::Scalar, 1, 1});
  check_bias({0, 0, vector(3, 0), BiasKind::PerN, 0, 1});
}

TEST_CASE("a bias has one stride: a column of a matrix serves as PerM, a strided row as PerN") {
  check_bias({5, 7, matrix(3, {5, 1}, 12), BiasKind::PerM, 5, 12});
  check_bias({5, 7, with_strides(matrix(3, {1, 7}), {99, 3}), BiasKind::PerN, 7, 3});
  check_bias({5, 7, vector(3, 7, 3), BiasKind::PerN, 7, 3});
  check_bias({5, 7, vector(3, 5, 4), BiasKind::PerM, 5, 4});
}

TEST_CASE("two rows keep their leading dimension, two bias elements their stride") {
  check_bias({2, 3, matrix(3, {2, 1}, 12), BiasKind::PerM, 2, 12});
  GemmForward call = small_forward(2);
  call.Y.desc.stride = {40, 1};
  const Result<GemmPlan> planned = plan(call);
  REQUIRE(planned.ok());
  CHECK(planned->forward().Y.desc.stride == Extents{40, 1});
}

TEST_CASE("C16 strides of a bias that move nothing are replaced by 1") {
  check_bias({5, 7, with_strides(matrix(3, {1, 1}), {0, 0}), BiasKind::Scalar, 1, 1});
  check_bias({5, 7, with_strides(matrix(3, {1, 1}), {-4, 17}), BiasKind::Scalar, 1, 1});
  check_bias({5, 7, vector(3, 1, 0), BiasKind::Scalar, 1, 1});
  check_bias({5, 7, with_strides(matrix(3, {1, 7}), {0, 1}), BiasKind::PerN, 7, 1});
  check_bias({5, 7, with_strides(matrix(3, {5, 1}), {1, 0}), BiasKind::PerM, 5, 1});
}

TEST_CASE("no bias has the kind None") {
  CHECK(plan(small_forward())->bias_kind() == BiasKind::None);
  CHECK(plan(small_backward())->bias_kind() == BiasKind::None);
}

TEST_CASE("C16 the leading dimension of one row is irrelevant and replaced by the width") {
  GemmForward call = full_forward(1);
  for (const std::int64_t ld : {-7, 0, 1, 2, 1000}) {
    CAPTURE(ld);
    for (Tensor* tensor : {&call.A, &*call.C, &call.Y, &*call.Z}) tensor->desc.stride = {ld, 1};
    const Result<GemmPlan> planned = plan(call);
    REQUIRE_MESSAGE(planned.ok(), planned.status().message());
    CHECK(planned->forward().A.desc.stride == Extents{kK, 1});
    CHECK(planned->forward().C->desc.stride == Extents{kN, 1});
    CHECK(planned->forward().Y.desc.stride == Extents{kN, 1});
    CHECK(planned->forward().Z->desc.stride == Extents{kN, 1});
  }
}

TEST_CASE("C16 the column stride of one column is irrelevant and replaced by 1") {
  GemmForward call = small_forward(kM, 1, kK);
  call.Y.desc.stride = {4, -9};
  call.B.desc.stride = {2, 0};
  const Result<GemmPlan> planned = plan(call);
  REQUIRE_MESSAGE(planned.ok(), planned.status().message());
  CHECK(planned->forward().Y.desc.stride == Extents{4, 1});
  CHECK(planned->forward().B.desc.stride == Extents{2, 1});
}

TEST_CASE("C16 strides of a matrix without elements are replaced") {
  GemmForward call = small_forward(kM, kN, 0);
  call.A.desc.stride = {-3, -3};
  call.B.desc.stride = {-3, -3};
  const Result<GemmPlan> planned = plan(call);
  REQUIRE_MESSAGE(planned.ok(), planned.status().message());
  CHECK(planned->forward().A.desc.stride == Extents{1, 1});
  CHECK(planned->forward().B.desc.stride == Extents{kN, 1});
}

TEST_CASE("F5 views with steps of rows are leading dimensions, with steps of columns refused") {
  GemmForward call = small_forward();
  call.A.desc.stride = {2 * kK, 1};  // X[::2]
  const Result<GemmPlan> planned = plan(call);
  REQUIRE(planned.ok());
  CHECK(planned->forward().A.desc.stride == Extents{2 * kK, 1});
  call.A.desc.stride = {2 * kK, 2};  // X[:, ::2]
  check_refused(call, StatusCode::StrideMismatch,
                "A has strides [6,2], expected a stride of 1 along its rows");
}
