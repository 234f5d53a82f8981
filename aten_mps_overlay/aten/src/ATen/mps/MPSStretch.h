#pragma once

// Which graph runs of a capture can be made as one, and how. Objective-C++
// only.

#include <ATen/mps/MPSTensorView.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::mps {

/// A graph run that may be part of a stretch: where its data lies, in the order
/// of the executable.
struct MPSLinkCandidate {
  size_t step = 0; // position among the steps
  std::vector<MPSTensorLocation> inputs;
  std::vector<MPSTensorLocation> results;
  // shapes of what the executable gives, which its memory may have otherwise;
  // nothing for a result whose memory has another element type
  std::vector<std::optional<std::vector<int64_t>>> values;
};

/// Where a part takes an input from: memory, or the result of an earlier part,
/// seen through a view.
struct MPSLinkInput {
  bool is_result = false;
  size_t placeholder = 0;
  size_t part = 0;
  size_t result = 0;
  std::vector<MPSViewStep> view;
};

struct MPSStretchPart {
  const MPSLinkCandidate* run = nullptr;
  std::vector<MPSLinkInput> inputs;
  // by result, whether it has to be in its memory afterwards
  std::vector<bool> written;
};

struct MPSStretch {
  // all that it replaces, also runs that are not needed and that are no parts
  std::vector<size_t> steps;
  std::vector<MPSStretchPart> parts;
  // the part and its input that has the data of each placeholder
  std::vector<std::pair<size_t, size_t>> placeholders;
};

/// What a step does to memory, for those that come before it.
struct MPSStepAccesses {
  struct Access {
    MPSByteRange bytes;
    bool overwrites; // all of these bytes, without a look at them
  };
  std::vector<Access> all; // those that read first
  // it may do more than is known
  bool is_unknown = false;
};

struct MPSStretchOptions {
  size_t limit = 0; // of runs in a stretch
  bool views = true; // of results, as operations in the graph
  bool keep_results = false; // also those that can not be seen afterwards
};

/// Finds out whether what lies in memory after a step is still looked at.
class MPSLaterAccesses {
 public:
  /// Whether anybody can see one of these bytes after the last step.
  using IsSeen = std::function<bool(const MPSByteRange& bytes)>;

  /// `accesses` has an entry for each step of the capture.
  MPSLaterAccesses(
      const std::vector<MPSStepAccesses>& accesses,
      IsSeen is_seen);

  /// Whether one of the bytes is read after the step before it is overwritten,
  /// or can be seen in the end.
  bool isNeeded(const MPSByteRange& bytes, size_t step) const;

 private:
  struct Access {
    size_t step;
    bool overwrites;
  };
  // The bytes of a region, cut wherever an access begins or ends: between
  // `cuts[i]` and the next cut `accesses[i]` are all of them, by step.
  struct Region {
    std::vector<size_t> cuts;
    std::vector<std::vector<Access>> accesses;
  };
  // nullptr if no step after this one touches what lies behind the cut
  const Access* nextAccess(const Region& region, size_t cut, size_t step) const;

  std::unordered_map<const void*, Region> regions_;
  // steps that may do more than is known
  std::vector<size_t> unknown_;
  const IsSeen is_seen_;
};

/// Splits neighbouring graph runs into stretches, and leaves out what has to
/// stay alone.
///
/// The parts of a stretch may run in any order that their tensors allow, and
/// each result may be in its memory as soon as it is computed. So within a
/// stretch no two results that are written overlap, and none overlaps memory
/// that another part reads.
class MPSStretchPlanner {
 public:
  MPSStretchPlanner(MPSLaterAccesses later, MPSStretchOptions options)
      : later_(std::move(later)), options_(options) {}

  /// `runs` are such that nothing lies between them which has to come in its
  /// turn.
  std::vector<MPSStretch> plan(const std::vector<MPSLinkCandidate>& runs) const;

 private:
  bool resolve(const MPSLinkCandidate& run, MPSStretch& stretch) const;
  // what a part leaves nothing of
  struct Overwritten {
    size_t part;
    MPSByteRange bytes;
  };
  bool isNeeded(
      const MPSStretch& stretch,
      size_t part,
      const MPSTensorLocation& result,
      const std::vector<Overwritten>& overwritten) const;
  bool decideResults(MPSStretch& stretch) const;
  static bool hasConflict(const MPSStretch& stretch);
  static void dropUnused(MPSStretch& stretch);

  const MPSLaterAccesses later_;
  const MPSStretchOptions options_;
};

} // namespace at::mps
