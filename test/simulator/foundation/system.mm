// What the kernel, dyld and CoreFoundation answer in the simulator.
#include <CoreFoundation/CoreFoundation.h>
#include <Foundation/Foundation.h>
#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#include <mach/vm_page_size.h>
#include <os/object.h>

size_t vm_page_size = 16384;
size_t vm_page_mask = 16383;
int vm_page_shift = 14;

// No Mach-O image is loaded, so nothing can be read from one.
uint32_t _dyld_image_count(void) {
  return 0;
}

const struct mach_header* _dyld_get_image_header(uint32_t image_index) {
  return nullptr;
}

const char* _dyld_get_image_name(uint32_t image_index) {
  return nullptr;
}

uint8_t* getsectiondata(const struct mach_header_64* header,
                        const char* segment_name,
                        const char* section_name,
                        unsigned long* size) {
  return nullptr;
}

void* os_retain(void* object) {
  return [(id)object retain];
}

void os_release(void* object) {
  [(id)object release];
}

CFTypeRef CFRetain(CFTypeRef object) {
  return [(id)object retain];
}

void CFRelease(CFTypeRef object) {
  [(id)object release];
}

CFIndex CFGetRetainCount(CFTypeRef object) {
  return [(id)object retainCount];
}

CFAbsoluteTime CFAbsoluteTimeGetCurrent(void) {
  // Counted from the first of January 2001.
  return clock_gettime_nsec_np(CLOCK_REALTIME) / 1e9 - 978307200.0;
}
