#pragma once

#include <mach-o/loader.h>

#include <cstdint>
#include <string>

namespace torch_mps_graph {

/// A function of the MPS backend that `image` takes from the library of this
/// file name, or from whichever library is first to have it; empty if none.
/// `content` is where byte 0 of the image's file would be, counted from its
/// symbols.
std::string backendFunctionTakenFrom(
    const mach_header_64& image,
    const uint8_t* content,
    const std::string& library);

/// The same place of an image that dyld has loaded; null if it has no symbols.
const uint8_t* loadedContent(const mach_header_64& image);

} // namespace torch_mps_graph
