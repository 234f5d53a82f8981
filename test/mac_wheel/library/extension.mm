// An extension that uses the backend's own functions, as upstream's example of one does.

#include <ATen/mps/MPSStream.h>

extern "C" __attribute__((visibility("default"))) void* use_the_stream() {
  auto* stream = at::mps::getCurrentMPSStream();
  stream->synchronize(at::mps::SyncType::COMMIT);
  return stream;
}
