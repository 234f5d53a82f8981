// The macros of the Metal standard library, known before the user's first line.
#define INFINITY __builtin_huge_valf()
#define NAN __builtin_nanf("")
#define FLT_MANT_DIG 24
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define METAL_FUNC inline __attribute__((__always_inline__))
