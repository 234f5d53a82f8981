#include <ATen/mps/MPSTensorView.h>
#include <gtest/gtest.h>

#include <vector>

using namespace at::mps;

static MPSTensorLocation place(std::vector<int64_t> sizes, std::vector<int64_t> strides, size_t begin = 0) {
  static const int region = 0;
  return {&region, begin, std::move(sizes), std::move(strides), MPSDataTypeFloat32, sizeof(float)};
}

static std::vector<MPSViewStep::Kind> kinds(const std::vector<MPSViewStep>& steps) {
  std::vector<MPSViewStep::Kind> result;
  for (const auto& step : steps) {
    result.push_back(step.kind);
  }
  return result;
}

TEST(MPSTensorViewTest, Overlap) {
  EXPECT_EQ(endOf(place({4, 8}, {8, 1})), 4 * 8 * sizeof(float));
  EXPECT_TRUE(isDense(place({4, 8}, {8, 1})));
  EXPECT_FALSE(isDense(place({4, 8}, {16, 1})));
  EXPECT_TRUE(overlap(place({4, 8}, {8, 1}), place({8}, {1}, 64)));
  EXPECT_FALSE(overlap(place({4, 8}, {8, 1}), place({8}, {1}, 128)));
}

TEST(MPSTensorViewTest, SameTensor) {
  const auto whole = place({4, 8}, {8, 1});
  const auto view = viewOf(whole, {4, 8}, whole);
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->empty());
}

TEST(MPSTensorViewTest, ReshapeTransposeAndSlice) {
  const auto whole = place({4, 8}, {8, 1});
  const auto flat = viewOf(whole, {4, 8}, place({32}, {1}));
  ASSERT_TRUE(flat);
  EXPECT_EQ(kinds(*flat), std::vector{MPSViewStep::Kind::RESHAPE});
  EXPECT_EQ(flat->front().numbers, std::vector<int64_t>{32});
  const auto transposed = viewOf(whole, {4, 8}, place({8, 4}, {1, 8}));
  ASSERT_TRUE(transposed);
  EXPECT_EQ(kinds(*transposed), std::vector{MPSViewStep::Kind::TRANSPOSE});
  const auto rows = viewOf(whole, {4, 8}, place({2, 8}, {8, 1}, 8 * sizeof(float)));
  ASSERT_TRUE(rows);
  ASSERT_EQ(kinds(*rows), std::vector{MPSViewStep::Kind::SLICE});
  EXPECT_EQ(rows->front().numbers.front(), 1);
  EXPECT_EQ(rows->front().ends.front(), 3);
}

TEST(MPSTensorViewTest, WhatNoViewShows) {
  const auto whole = place({4, 8}, {8, 1});
  EXPECT_FALSE(viewOf(whole, {4, 8}, place({64}, {1}))) << "more than there is";
  static const int elsewhere = 0;
  auto other = whole;
  other.region = &elsewhere;
  EXPECT_FALSE(viewOf(whole, {4, 8}, other));
}
