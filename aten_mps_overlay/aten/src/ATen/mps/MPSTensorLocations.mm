#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSTensorLocations.h>

#include <tuple>

namespace at::mps {

// Asks first whether anybody wants to know: operators outside of captures pass here, too.
template <typename Note>
static void noteInCapture(const Note& note) {
  if (!isCaptureUnderway()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (capture && capture->notesLocations()) {
    note(*capture);
  }
}

static MPSTensorLocation makeLocation(MPSShape* shape, MPSDataType type) {
  MPSTensorLocation place;
  place.type = type;
  const auto dtype = scalarTypeOf(type);
  place.itemsize = dtype == c10::ScalarType::Undefined ? 0 : c10::elementSize(dtype);
  for (NSNumber* size in shape) {
    place.sizes.push_back(size.longLongValue);
  }
  place.strides.resize(place.sizes.size());
  int64_t stride = 1;
  for (size_t i = place.sizes.size(); i-- > 0;) {
    place.strides[i] = stride;
    stride *= place.sizes[i];
  }
  return place;
}

void noteLocation(id object,
                  MPSShape* shape,
                  MPSDataType type,
                  id<MTLBuffer> buffer,
                  size_t byte_offset,
                  std::optional<IntArrayRef> strides) {
  noteInCapture([&](MPSGraphCapture& capture) {
    auto place = makeLocation(shape, type);
    if (strides && strides->size() == place.strides.size()) {
      place.strides = strides->vec();
    } else if (strides && !strides->empty()) {
      return; // of another shape than it says
    }
    std::tie(place.region, place.begin) = regionOf(buffer);
    place.begin += byte_offset;
    place.buffer = buffer;
    capture.noteLocation(object, std::move(place));
  });
}

void noteOwnPlace(id object, MPSShape* shape, MPSDataType type) {
  noteInCapture([&](MPSGraphCapture& capture) {
    auto place = makeLocation(shape, type);
    place.region = object;
    capture.noteLocation(object, std::move(place));
  });
}

void noteLocationOf(id object, id other) {
  noteInCapture([&](MPSGraphCapture& capture) { capture.noteLocationOf(object, other); });
}

} // namespace at::mps
