#include <Metal/Metal.h>

id<MTLBuffer> make_buffer(id<MTLDevice> device) {
  return make_buffer_of(device, 16);
}
