#include <ATen/mps/MPSStretch.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

using namespace at::mps;

static constexpr size_t kBytes = 64 * sizeof(float);

/// Runs that each read one tensor and write another; tensors are numbered, and lie side by side.
class MPSStretchTest : public ::testing::Test {
 protected:
  static MPSTensorLocation tensor(size_t number) {
    static const int region = 0;
    return {&region, number * kBytes, {64}, {1}, MPSDataTypeFloat32, sizeof(float)};
  }

  static MPSByteRange bytes(size_t number) {
    const auto place = tensor(number);
    return {place.region, place.begin, place.begin + kBytes};
  }

  std::vector<MPSStretch> plan(const std::vector<std::pair<size_t, size_t>>& reads_and_writes,
                               MPSStretchOptions options = {100}) {
    runs.clear();
    std::vector<MPSStepAccesses> accesses;
    for (const auto& [read, written] : reads_and_writes) {
      runs.push_back({runs.size(), {tensor(read)}, {tensor(written)}, {std::vector<int64_t>{64}}});
      accesses.push_back({{{bytes(read), false}, {bytes(written), true}}});
    }
    const auto is_seen = [&](const MPSByteRange& range) { return range.overlaps(bytes(visible)); };
    return MPSStretchPlanner(MPSLaterAccesses(accesses, is_seen), options).plan(runs);
  }

  // the tensor that is looked at in the end
  size_t visible = 9;
  std::vector<MPSLinkCandidate> runs;
};

TEST_F(MPSStretchTest, ResultsOfAChainStayInTheExecutable) {
  const auto stretches = plan({{0, 1}, {1, 2}, {2, 9}});
  ASSERT_EQ(stretches.size(), 1);
  const auto& parts = stretches[0].parts;
  ASSERT_EQ(parts.size(), 3);
  EXPECT_FALSE(parts[0].inputs[0].is_result);
  EXPECT_TRUE(parts[1].inputs[0].is_result);
  EXPECT_EQ(parts[1].inputs[0].part, 0);
  EXPECT_FALSE(parts[0].written[0]);
  EXPECT_FALSE(parts[1].written[0]);
  EXPECT_TRUE(parts[2].written[0]);
}

TEST_F(MPSStretchTest, ResultsAreKeptOnRequest) {
  MPSStretchOptions options{100};
  options.keep_results = true;
  const auto stretches = plan({{0, 1}, {1, 2}, {2, 9}}, options);
  ASSERT_EQ(stretches.size(), 1);
  for (const auto& part : stretches[0].parts) {
    EXPECT_TRUE(part.written[0]);
  }
}

TEST_F(MPSStretchTest, ALimitSplits) {
  const auto stretches = plan({{0, 1}, {1, 2}, {2, 3}, {3, 9}}, {2});
  ASSERT_EQ(stretches.size(), 2);
  EXPECT_EQ(stretches[0].steps.size(), 2);
  EXPECT_TRUE(stretches[0].parts.back().written[0]) << "the next stretch reads it from memory";
}

TEST_F(MPSStretchTest, NothingOverwritesWhatAnotherPartReads) {
  // the second run writes what the first one reads
  for (const auto& stretch : plan({{9, 1}, {1, 9}})) {
    EXPECT_EQ(stretch.parts.size(), 1);
  }
}

TEST_F(MPSStretchTest, LaterAccesses) {
  const std::vector<MPSStepAccesses> accesses = {{{{bytes(1), true}}}, {{{bytes(1), false}}}, {{{bytes(1), true}}}};
  const MPSLaterAccesses later(accesses, [](const MPSByteRange&) { return false; });
  EXPECT_TRUE(later.isNeeded(bytes(1), 0)) << "the second step reads it";
  EXPECT_FALSE(later.isNeeded(bytes(1), 1)) << "the third step overwrites it";
  EXPECT_FALSE(later.isNeeded(bytes(1), 2));
}
