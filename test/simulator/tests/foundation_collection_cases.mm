// Numbers, strings and collections, where they are easily wrong.
#include "foundation_checks.h"
#include "support/settings.h"

CASE(number_equality_across_types) {
  CHECK([@1 isEqual:@1.0]);
  CHECK([@1 isEqual:@(1ul)]);
  CHECK_EQUAL((@1).hash, (@1.0).hash);
  CHECK_EQUAL((@(1ul)).hash, (@YES).hash);
  CHECK(![@(-1) isEqual:@(UINT64_MAX)]);
  CHECK(![@1 isEqual:@"1"]);
}

CASE(string_format) {
  CHECK_STRING([NSString stringWithFormat:@"%@ and %@", @"a", @1], "a and 1");
  CHECK_STRING([NSString stringWithFormat:@"%d %u %ld %lu %lld %zu", -1, 2u, -3l, 4ul, -5ll, size_t{6}],
               "-1 2 -3 4 -5 6");
  CHECK_STRING([NSString stringWithFormat:@"%5.2f|%-4d|%04x|%c|%%", 3.14159, 7, 0xAB, 'z'], " 3.14|7   |00ab|z|%");
  CHECK_STRING([NSString stringWithFormat:@"%s %*d %.*f", "c", 4, 9, 1, 0.25], "c    9 0.2");
  CHECK_STRING([NSString stringWithFormat:@"%@", nil], "(null)");
  CHECK_STRING([NSString stringWithFormat:@"%g %e %hhd", 1e-9, 1.0, 300], "1e-09 1.000000e+00 44");
  CHECK_EQUAL(([NSString stringWithFormat:@"%@x", [NSString stringWithFormat:@"%0500d", 0]].length), 501ul);
  CHECK_UNSUPPORTED("'%n'", [NSString stringWithFormat:@"%n", nullptr]);
}

CASE(string_lengths_count_utf16) {
  NSString* text = [NSString stringWithUTF8String:"aé😀z"];
  CHECK_EQUAL(text.length, 5ul);
}

CASE(misuse_of_collections) {
  NSMutableArray* array = [NSMutableArray arrayWithArray:@[ @1, @2, @3 ]];
  CHECK_VIOLATION("index 3 beyond count 3", (void)array[3]);
  CHECK_VIOLATION("attempt to insert nil", [array addObject:(id)nil]);
  CHECK_VIOLATION("changed while it was enumerated", for (id object in array) { [array addObject:object]; });
}

CASE(collections_own_their_members) {
  NSObject* object = [NSObject new];
  const id both[] = {object, object};
  NSArray* array = [[NSArray alloc] initWithObjects:both count:2];
  CHECK_EQUAL(object.retainCount, 3ul);
  NSMutableDictionary* dictionary = [NSMutableDictionary new];
  dictionary[@"a"] = object;
  dictionary[@"a"] = object;
  CHECK_EQUAL(object.retainCount, 4ul);
  NSSet* set = [[NSSet alloc] initWithArray:array];
  CHECK_EQUAL(set.count, 1ul);
  CHECK_EQUAL(object.retainCount, 5ul);
  [array release];
  [dictionary release];
  [set release];
  CHECK_EQUAL(object.retainCount, 1ul);
  [object release];
}

CASE(mutable_dictionary) {
  NSMutableDictionary* dictionary = [[NSMutableDictionary new] autorelease];
  for (int i = 0; i < 100; ++i) {
    dictionary[@(i)] = @(i * i);
  }
  for (int i = 0; i < 100; ++i) {
    CHECK_EQUAL([dictionary[@(i)] intValue], i * i);
  }
  CHECK_VIOLATION("attempt to insert nil", [dictionary setObject:(id)nil forKey:@1]);
  NSMutableArray* key = [NSMutableArray arrayWithObjects:@1, nil];
  dictionary[key] = @1;
  [key addObject:@2];
  CHECK([dictionary[@[ @1 ]] intValue] == 1);
}

CASE(process_info_follows_the_settings) {
  NSProcessInfo* info = [[NSProcessInfo new] autorelease];
  auto& settings = mps_simulator::settings();
  const int major = settings.macos_major;
  const int minor = settings.macos_minor;
  settings.macos_major = 14;
  settings.macos_minor = 5;
  CHECK(([info isOperatingSystemAtLeastVersion:{14, 5, 0}]));
  CHECK(([info isOperatingSystemAtLeastVersion:{13, 9, 9}]));
  CHECK((![info isOperatingSystemAtLeastVersion:{14, 6, 0}]));
  CHECK((![info isOperatingSystemAtLeastVersion:{15, 0, 0}]));
  settings.macos_major = major;
  settings.macos_minor = minor;
}
