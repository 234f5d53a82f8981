#include <ATen/mps/MPSStretch.h>
#include <c10/util/irange.h>

#include <algorithm>

namespace at::mps {

namespace {

bool isSame(const MPSTensorLocation& one, const MPSTensorLocation& other) {
  return one.region == other.region && one.begin == other.begin && one.type == other.type && one.sizes == other.sizes &&
      one.strides == other.strides;
}

const MPSTensorLocation& locationOf(const MPSStretch& stretch, size_t placeholder) {
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
                                             const MPSTensorLocation& part,
                                             bool with_views) {
  const auto& value = run.values[result];
  auto view = value ? viewOf(run.results[result], *value, part) : std::nullopt;
  const bool is_plain = view && std::all_of(view->begin(), view->end(), [](const MPSViewStep& step) {
                          return step.kind == MPSViewStep::Kind::RESHAPE;
                        });
  return is_plain || with_views ? view : std::nullopt;
}

} // namespace

MPSLaterAccesses::MPSLaterAccesses(const std::vector<MPSStepAccesses>& accesses, IsSeen is_seen)
    : is_seen_(std::move(is_seen)) {
  for (const auto& step : accesses) {
    for (const auto& access : step.all) {
      auto& cuts = regions_[access.bytes.region].cuts;
      cuts.push_back(access.bytes.begin);
      cuts.push_back(access.bytes.end);
    }
  }
  for (auto& [_, region] : regions_) {
    std::sort(region.cuts.begin(), region.cuts.end());
    region.cuts.erase(std::unique(region.cuts.begin(), region.cuts.end()), region.cuts.end());
    region.accesses.resize(region.cuts.size());
  }
  for (const auto step : c10::irange(accesses.size())) {
    if (accesses[step].is_unknown) {
      unknown_.push_back(step);
    }
    for (const auto& access : accesses[step].all) {
      auto& region = regions_.at(access.bytes.region);
      const auto first = std::lower_bound(region.cuts.begin(), region.cuts.end(), access.bytes.begin);
      for (auto cut = first; cut != region.cuts.end() && *cut < access.bytes.end; cut++) {
        region.accesses[cut - region.cuts.begin()].push_back({step, access.overwrites});
      }
    }
  }
}

const MPSLaterAccesses::Access* MPSLaterAccesses::nextAccess(const Region& region, size_t cut, size_t step) const {
  const auto& accesses = region.accesses[cut];
  const auto next = std::upper_bound(
      accesses.begin(), accesses.end(), step, [](size_t wanted, const Access& access) { return wanted < access.step; });
  return next == accesses.end() ? nullptr : &*next;
}

bool MPSLaterAccesses::isNeeded(const MPSByteRange& bytes, size_t step) const {
  const auto unknown = std::upper_bound(unknown_.begin(), unknown_.end(), step);
  const auto known = regions_.find(bytes.region);
  if (known == regions_.end()) {
    return unknown != unknown_.end() || is_seen_(bytes);
  }
  const auto& region = known->second;
  // those that no step touches any more, as far as they lie side by side
  MPSByteRange untouched{bytes.region, bytes.begin, bytes.begin};
  size_t next_cut = std::upper_bound(region.cuts.begin(), region.cuts.end(), bytes.begin) - region.cuts.begin();
  for (size_t begin = bytes.begin; begin < bytes.end; next_cut++) {
    const size_t end = next_cut == region.cuts.size() ? bytes.end : std::min(region.cuts[next_cut], bytes.end);
    const auto* next = next_cut == 0 ? nullptr : nextAccess(region, next_cut - 1, step);
    if (next && (unknown == unknown_.end() || next->step < *unknown)) {
      if (!next->overwrites || (untouched.begin < untouched.end && is_seen_(untouched))) {
        return true;
      }
      untouched.begin = end;
    } else if (unknown != unknown_.end()) {
      return true;
    }
    untouched.end = end;
    begin = end;
  }
  return untouched.begin < untouched.end && is_seen_(untouched);
}

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
        if (isSame(locationOf(stretch, input.placeholder), place)) {
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

// Whether the memory of the result is read after the stretch while some of the result is still there.
bool MPSStretchPlanner::isNeeded(const MPSStretch& stretch,
                                 size_t part,
                                 const MPSTensorLocation& result,
                                 const std::vector<Overwritten>& overwritten) const {
  if (options_.keep_results) {
    return true;
  }
  Bytes left(result.begin, endOf(result));
  for (auto other = overwritten.rbegin(); other != overwritten.rend() && other->part > part; ++other) {
    if (other->bytes.region == result.region) {
      left.remove(other->bytes.begin, other->bytes.end);
    }
  }
  const size_t last = stretch.parts.back().run->step;
  return left.any([&](size_t begin, size_t end) { return later_.isNeeded({result.region, begin, end}, last); });
}

// Returns false if the results that have to be written can't be, in any order.
bool MPSStretchPlanner::decideResults(MPSStretch& stretch) const {
  std::vector<Overwritten> overwritten;
  for (const auto part : c10::irange(stretch.parts.size())) {
    for (const auto& result : stretch.parts[part].run->results) {
      if (isDense(result)) {
        overwritten.push_back({part, {result.region, result.begin, endOf(result)}});
      }
    }
  }
  for (const auto part : c10::irange(stretch.parts.size())) {
    auto& one = stretch.parts[part];
    for (const auto i : c10::irange(one.written.size())) {
      one.written[i] = isNeeded(stretch, part, one.run->results[i], overwritten);
    }
  }
  return !hasConflict(stretch);
}

bool MPSStretchPlanner::hasConflict(const MPSStretch& stretch) {
  std::vector<std::pair<size_t, const MPSTensorLocation*>> written;
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
        if (writer != reader && overlap(*result, locationOf(stretch, input.placeholder))) {
          return true;
        }
      }
    }
  }
  return false;
}

// Parts that are not needed, and their placeholders.
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
