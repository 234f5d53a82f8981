// Windows over space, as convolutions and poolings have them.
#pragma once

#include "graph/operation.h"
#include "support/error.h"

namespace mps_simulator::graph {

// From the outermost to the innermost dimension: (depth,) height, width.
struct Windows {
  Sizes stride;
  Sizes dilation;
  Sizes before; // padding
  Sizes after;
};

// Height and width, which all descriptors of windows call by the same names.
template <typename Descriptor>
Windows windows_of(Descriptor* descriptor) {
  return {{(int64_t)descriptor.strideInY, (int64_t)descriptor.strideInX},
          {(int64_t)descriptor.dilationRateInY, (int64_t)descriptor.dilationRateInX},
          {(int64_t)descriptor.paddingTop, (int64_t)descriptor.paddingLeft},
          {(int64_t)descriptor.paddingBottom, (int64_t)descriptor.paddingRight}};
}

} // namespace mps_simulator::graph
