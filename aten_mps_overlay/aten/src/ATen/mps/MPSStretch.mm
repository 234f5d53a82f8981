#include <ATen/mps/MPSStretch.h>
#include <c10/util/irange.h>

#include <algorithm>

namespace at::mps {

namespace {

bool isSame(const MPSTensorPlace& one, const MPSTensorPlace& other) {
  return one.region == other.region && one.begin == other.begin && one.type == other.type && one.sizes == other.sizes &&
      one.strides == other.strides;
}

const MPSTensorPlace& placeOf(const MPSStretch& stretch, size_t placeholder) {
  const auto [part, input] = stretch.placeholders[placeholder];
  return stretch.parts[part].run->inputs[input];
}

// Some of the bytes of a region.
class Bytes {
 public:
  Bytes(size_t begin, size_t end) {
    if (begin < end) {
      ranges_.emplace_back(begin, end);
    }
  }

  bool empty() const {
    return ranges_.empty();
  }

  void remove(size_t begin, size_t end) {
    std::vector<std::pair<size_t, size_t>> left;
    for (const auto& range : ranges_) {
      if (range.first < std::min(range.second, begin)) {
        left.emplace_back(range.first, std::min(range.second, begin));
      }
      if (std::max(range.first, end) < range.second) {
        left.emplace_back(std::max(range.first, end), range.second);
      }
    }
    ranges_ = std::move(left);
  }

  bool overlap(size_t begin, size_t end) const {
    return any([&](size_t first, size_t last) { return std::max(begin, first) < std::min(end, last); });
  }

  template <typename Test>
  bool any(const Test& test) const {
    return std::any_of(
        ranges_.begin(), ranges_.end(), [&](const auto& range) { return test(range.first, range.second); });
  }

 private:
  std::vector<std::pair<size_t, size_t>> ranges_;
};

// The first `length` parts, without the others.
MPSStretch beginOf(const MPSStretch& stretch, size_t length) {
  MPSStretch begin;
  begin.parts.assign(stretch.parts.begin(), stretch.parts.begin() + static_cast<ptrdiff_t>(length));
  for (const auto& placeholder : stretch.placeholders) {
    if (placeholder.first < length) {
      begin.placeholders.push_back(placeholder);
    }
  }
  for (const auto& part : begin.parts) {
    begin.steps.push_back(part.run->step);
  }
  return begin;
}

// What can be shown of a result that an earlier part leaves in `whole`.
std::optional<std::vector<MPSViewStep>> show(const MPSLinkCandidate& run,
                                             size_t result,
                                             const MPSTensorPlace& part,
                                             bool with_views) {
  const auto& value = run.values[result];
  auto view = value ? viewOf(run.results[result], *value, part) : std::nullopt;
  const bool is_plain = view && std::all_of(view->begin(), view->end(), [](const MPSViewStep& step) {
                          return step.kind == MPSViewStep::Kind::RESHAPE;
                        });
  return is_plain || with_views ? view : std::nullopt;
}

} // namespace

// Returns false if the run reads what no tensor of the stretch shows.
bool MPSStretchPlanner::resolve(const MPSLinkCandidate& run, MPSStretch& stretch) const {
  MPSStretchPart next{&run, {}, std::vector<bool>(run.results.size(), true)};
  const size_t placeholders_before = stretch.placeholders.size();
  for (const auto i : c10::irange(run.inputs.size())) {
    const auto& place = run.inputs[i];
    MPSLinkInput input;
    for (size_t part = stretch.parts.size(); part-- > 0 && !input.is_result;) {
      const auto& earlier = *stretch.parts[part].run;
      for (const auto result : c10::irange(earlier.results.size())) {
        if (!overlap(earlier.results[result], place)) {
          continue;
        }
        // the last one that wrote there
        auto view = show(earlier, result, place, options_.views);
        if (!view) {
          stretch.placeholders.resize(placeholders_before);
          return false;
        }
        input = {true, 0, part, result, std::move(*view)};
        break;
      }
    }
    if (!input.is_result) {
      for (input.placeholder = 0; input.placeholder < placeholders_before; input.placeholder++) {
        if (isSame(placeOf(stretch, input.placeholder), place)) {
          break;
        }
      }
      if (input.placeholder == placeholders_before) {
        input.placeholder = stretch.placeholders.size();
        stretch.placeholders.emplace_back(stretch.parts.size(), i);
      }
    }
    next.inputs.push_back(std::move(input));
  }
  stretch.parts.push_back(std::move(next));
  return true;
}

// Whether somebody looks at the memory of the result after the stretch, and finds some of it there.
bool MPSStretchPlanner::isNeeded(const MPSStretch& stretch, size_t part, const MPSTensorPlace& result) const {
  if (options_.keep_results) {
    return true;
  }
  Bytes left(result.begin, endOf(result));
  for (const auto later : c10::irange(part + 1, stretch.parts.size())) {
    for (const auto& other : stretch.parts[later].run->results) {
      if (other.region == result.region && isDense(other)) {
        left.remove(other.begin, endOf(other));
      }
    }
  }
  for (size_t step = stretch.parts.back().run->step + 1; step < accesses_.size() && !left.empty(); step++) {
    if (accesses_[step].is_unknown) {
      return true;
    }
    for (const auto& access : accesses_[step].all) {
      if (access.region != result.region) {
        continue;
      }
      if (access.overwrites) {
        left.remove(access.begin, access.end);
      } else if (left.overlap(access.begin, access.end)) {
        return true;
      }
    }
  }
  return left.any([&](size_t begin, size_t end) { return is_seen_(result.region, begin, end); });
}

// Returns false if the results that have to be written can't be, in any order.
bool MPSStretchPlanner::decideResults(MPSStretch& stretch) const {
  for (const auto part : c10::irange(stretch.parts.size())) {
    auto& one = stretch.parts[part];
    for (const auto i : c10::irange(one.written.size())) {
      one.written[i] = isNeeded(stretch, part, one.run->results[i]);
    }
  }
  return !hasConflict(stretch);
}

bool MPSStretchPlanner::hasConflict(const MPSStretch& stretch) {
  std::vector<std::pair<size_t, const MPSTensorPlace*>> written;
  for (const auto part : c10::irange(stretch.parts.size())) {
    const auto& one = stretch.parts[part];
    for (const auto i : c10::irange(one.written.size())) {
      if (!one.written[i]) {
        continue;
      }
      const auto& result = one.run->results[i];
      for (const auto& [_, other] : written) {
        if (overlap(*other, result)) {
          return true;
        }
      }
      written.emplace_back(part, &result);
    }
  }
  for (const auto reader : c10::irange(stretch.parts.size())) {
    for (const auto& input : stretch.parts[reader].inputs) {
      if (input.is_result) {
        continue;
      }
      for (const auto& [writer, result] : written) {
        // a part may write in the place of what it reads itself, as it does without a stretch
        if (writer != reader && overlap(*result, placeOf(stretch, input.placeholder))) {
          return true;
        }
      }
    }
  }
  return false;
}

// Parts that nobody needs, and placeholders of theirs.
void MPSStretchPlanner::dropUnused(MPSStretch& stretch) {
  std::vector<bool> used(stretch.parts.size());
  for (size_t part = stretch.parts.size(); part-- > 0;) {
    const auto& one = stretch.parts[part];
    used[part] = used[part] || std::find(one.written.begin(), one.written.end(), true) != one.written.end();
    for (const auto& input : one.inputs) {
      if (used[part] && input.is_result) {
        used[input.part] = true;
      }
    }
  }
  std::vector<size_t> new_part(stretch.parts.size());
  std::vector<std::optional<size_t>> new_placeholder(stretch.placeholders.size());
  MPSStretch kept;
  kept.steps = std::move(stretch.steps);
  for (const auto part : c10::irange(stretch.parts.size())) {
    if (!used[part]) {
      continue;
    }
    new_part[part] = kept.parts.size();
    auto one = std::move(stretch.parts[part]);
    for (const auto i : c10::irange(one.inputs.size())) {
      auto& input = one.inputs[i];
      if (input.is_result) {
        input.part = new_part[input.part];
        continue;
      }
      auto& placeholder = new_placeholder[input.placeholder];
      if (!placeholder) {
        placeholder = kept.placeholders.size();
        kept.placeholders.emplace_back(kept.parts.size(), i);
      }
      input.placeholder = *placeholder;
    }
    kept.parts.push_back(std::move(one));
  }
  stretch = std::move(kept);
}

std::vector<MPSStretch> MPSStretchPlanner::plan(const std::vector<MPSLinkCandidate>& runs) const {
  std::vector<MPSStretch> stretches;
  for (size_t first = 0; first < runs.size();) {
    MPSStretch longest;
    while (first + longest.parts.size() < runs.size() && longest.parts.size() < options_.limit &&
           resolve(runs[first + longest.parts.size()], longest)) {
    }
    // a shorter one may do where the longest does not
    size_t length = longest.parts.size();
    for (; length > 1; length--) {
      auto stretch = beginOf(longest, length);
      if (decideResults(stretch)) {
        dropUnused(stretch);
        if (!stretch.parts.empty()) {
          stretches.push_back(std::move(stretch));
        }
        break;
      }
    }
    first += std::max<size_t>(length, 1);
  }
  return stretches;
}

} // namespace at::mps
