// at::native::copy_impl hands MPS copies to the backend only where it was
// compiled with USE_MPS; the wheel's would look for a kernel in copy_stub. The
// kernel that stands in for it is that of the library for a Mac.
#include "../../../scripts/mac_wheel/takeover/copy.cpp"
