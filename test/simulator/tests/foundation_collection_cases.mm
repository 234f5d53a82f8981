// Numbers, strings, collections, data, errors.
#include "foundation/string.h"
#include "foundation_checks.h"
#include "support/settings.h"

#include <set>

CASE(number_types) {
  CHECK(std::string((@1).objCType) == "i");
  CHECK(std::string((@(1l)).objCType) == "q");
  CHECK(std::string((@(1ul)).objCType) == "Q");
  CHECK(std::string((@1.5f).objCType) == "f");
  CHECK(std::string((@1.5).objCType) == "d");
  CHECK(std::string((@YES).objCType) == "B");
  CHECK(std::string((@((short)1)).objCType) == "s");
}

CASE(number_values) {
  CHECK_EQUAL((@(-7)).intValue, -7);
  CHECK_EQUAL((@(-7)).longLongValue, -7ll);
  CHECK_EQUAL((@(-7)).doubleValue, -7.0);
  CHECK_EQUAL((@(INT64_MIN)).longLongValue, static_cast<long long>(INT64_MIN));
  CHECK_EQUAL((@(INT64_MAX)).longValue, INT64_MAX);
  CHECK_EQUAL((@(UINT64_MAX)).unsignedLongLongValue, static_cast<unsigned long long>(UINT64_MAX));
  CHECK_EQUAL((@(1l << 54)).longValue, 1l << 54);
  CHECK_EQUAL((@(-(1l << 54) - 1)).longValue, -(1l << 54) - 1);
  CHECK_EQUAL((@(3.99)).intValue, 3);
  CHECK_EQUAL((@(0.1f)).floatValue, 0.1f);
  CHECK((@(0.5)).boolValue);
  CHECK_EQUAL([[[[NSNumber alloc] initWithInteger:12] autorelease] integerValue], 12l);
}

CASE(number_equality_across_types) {
  CHECK([@1 isEqual:@1.0]);
  CHECK([@1 isEqual:@(1ul)]);
  CHECK_EQUAL((@1).hash, (@1.0).hash);
  CHECK_EQUAL((@(1ul)).hash, (@YES).hash);
  CHECK(![@(-1) isEqual:@(UINT64_MAX)]);
  CHECK(![@1 isEqual:@"1"]);
  CHECK_EQUAL((long)[@(-1) compare:@(UINT64_MAX)], (long)NSOrderedAscending);
  CHECK_EQUAL((long)[@2.5 compare:@2], (long)NSOrderedDescending);
}

CASE(number_text) {
  CHECK_STRING((@42).description, "42");
  CHECK_STRING((@(-1)).stringValue, "-1");
  CHECK_STRING((@(UINT64_MAX)).stringValue, "18446744073709551615");
  CHECK_STRING((@0.1).description, "0.1");
  CHECK_STRING((@0.1f).description, "0.1");
  CHECK_STRING((@1e100).description, "1e+100");
  CHECK_STRING((@YES).description, "1");
}

CASE(constant_strings) {
  NSString* text = @"hello";
  CHECK_EQUAL(text.length, 5ul);
  CHECK_STRING(text, "hello");
  CHECK_EQUAL(text.retainCount, NSUIntegerMax);
  [text release];
  [[text retain] autorelease];
  CHECK([text isEqual:[NSString stringWithUTF8String:"hello"]]);
  CHECK_EQUAL(text.hash, [NSString stringWithUTF8String:"hello"].hash);
  CHECK([@"" isEqualToString:[NSString string]]);
  CHECK([text isKindOfClass:[NSString class]]);
}

CASE(string_format) {
  CHECK_STRING([NSString stringWithFormat:@"%@ and %@", @"a", @[ @1 ]], "a and (\n    1\n)");
  CHECK_STRING([NSString stringWithFormat:@"%d %u %ld %lu %lld %zu", -1, 2u, -3l, 4ul, -5ll, size_t{6}],
               "-1 2 -3 4 -5 6");
  CHECK_STRING([NSString stringWithFormat:@"%5.2f|%-4d|%04x|%c|%%", 3.14159, 7, 0xAB, 'z'], " 3.14|7   |00ab|z|%");
  CHECK_STRING([NSString stringWithFormat:@"%s %*d %.*f", "c", 4, 9, 1, 0.25], "c    9 0.2");
  CHECK_STRING([NSString stringWithFormat:@"%@", nil], "(null)");
  CHECK_STRING([NSString stringWithFormat:@"%g %e %hhd", 1e-9, 1.0, 300], "1e-09 1.000000e+00 44");
  CHECK_EQUAL(([NSString stringWithFormat:@"%@x", [NSString stringWithFormat:@"%0500d", 0]].length), 501ul);
  CHECK_UNSUPPORTED("'%n'", [NSString stringWithFormat:@"%n", nullptr]);
}

CASE(string_parts) {
  NSString* text = @"one,two,,three";
  CHECK_STRING([text substringFromIndex:8], ",three");
  CHECK_VIOLATION("index 15", [text substringFromIndex:15]);
  CHECK([text hasPrefix:@"one"]);
  CHECK([text containsString:@"two"]);
  CHECK_EQUAL([text rangeOfString:@"two"].location, 4ul);
  CHECK_EQUAL([text rangeOfString:@"zwei"].location, static_cast<NSUInteger>(NSNotFound));
  CHECK_EQUAL([text rangeOfString:@"," options:NSBackwardsSearch].location, 8ul);
  CHECK_STRING([@"/a/b.txt" lastPathComponent], "b.txt");
  CHECK_EQUAL([@" 12x" intValue], 12);
  CHECK([@"Yes" boolValue] && ![@"0" boolValue]);
}

CASE(string_lengths_count_utf16) {
  NSString* text = [NSString stringWithUTF8String:"aé😀z"];
  CHECK_EQUAL(text.length, 5ul);
  CHECK_STRING([text substringFromIndex:4], "z");
}

CASE(array_literals_and_subscripts) {
  NSArray<NSNumber*>* array = @[ @3, @1, @2 ];
  CHECK_EQUAL(array.count, 3ul);
  CHECK_EQUAL(array[1].intValue, 1);
  CHECK_EQUAL(array.firstObject.intValue, 3);
  CHECK_VIOLATION("index 3 beyond count 3", (void)array[3]);
  CHECK_EQUAL([array indexOfObject:@2], 2ul);
  CHECK([array containsObject:@1.0]);
  CHECK(([array isEqual:@[ @3, @1, @2 ]]));
  CHECK((![array isEqual:@[ @3, @1 ]]));
  CHECK_STRING([array componentsJoinedByString:@","], "3,1,2");
  CHECK_STRING([[array valueForKey:@"description"] componentsJoinedByString:@","], "3,1,2");
  int sum = 0;
  for (NSNumber* number in array) {
    sum += number.intValue;
  }
  CHECK_EQUAL(sum, 6);
  NSArray* pair = [NSArray arrayWithObjects:@1, @2, nil];
  CHECK_EQUAL(pair.count, 2);
}

CASE(mutable_array) {
  NSMutableArray* array = [NSMutableArray arrayWithCapacity:2];
  [array addObject:@1];
  array[1] = @2;
  array[0] = @0;
  [array insertObject:@9 atIndex:1];
  CHECK_STRING([array componentsJoinedByString:@","], "0,9,2");
  [array removeObjectAtIndex:0];
  CHECK_STRING([array componentsJoinedByString:@","], "9,2");
  [array removeObject:@2];
  CHECK_STRING([array componentsJoinedByString:@","], "9");
  CHECK_VIOLATION("attempt to insert nil", [array addObject:(id)nil]);
  NSMutableArray* copy = [[@[ @1 ] mutableCopy] autorelease];
  NSArray* frozen = [[copy copy] autorelease];
  [copy addObject:@2];
  CHECK_EQUAL(frozen.count, 1ul);
}

CASE(mutation_while_enumerating) {
  NSMutableArray* array = [NSMutableArray arrayWithArray:@[ @1, @2, @3 ]];
  CHECK_VIOLATION("changed while it was enumerated", for (id object in array) { [array addObject:object]; });
}

CASE(collections_own_their_members) {
  NSObject* object = [NSObject new];
  NSArray* array = [[NSArray alloc] initWithObjects:object, object, nil];
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

CASE(dictionaries) {
  NSDictionary<NSString*, NSNumber*>* dictionary = @{@"a" : @1, @"b" : @2};
  CHECK_EQUAL(dictionary.count, 2ul);
  CHECK_EQUAL(dictionary[@"b"].intValue, 2);
  CHECK(dictionary[@"c"] == nil);
  std::set<std::string> keys;
  for (NSString* key in dictionary) {
    keys.insert(key.UTF8String);
  }
  CHECK((keys == std::set<std::string>{"a", "b"}));
  CHECK(([dictionary isEqual:@{@"b" : @2, @"a" : @1}]));
  CHECK_EQUAL(dictionary.allValues.count, 2ul);
  CHECK_EQUAL(@{@"a" : @1}.description.length, 14ul);
}

CASE(mutable_dictionary) {
  NSMutableDictionary* dictionary = [[NSMutableDictionary new] autorelease];
  for (int i = 0; i < 100; ++i) {
    dictionary[@(i)] = @(i * i);
  }
  for (int i = 0; i < 100; i += 2) {
    [dictionary removeObjectForKey:@(i)];
  }
  CHECK_EQUAL(dictionary.count, 50ul);
  for (int i = 0; i < 100; ++i) {
    CHECK_EQUAL([dictionary[@(i)] intValue], i % 2 == 0 ? 0 : i * i);
  }
  dictionary[@1] = nil;
  CHECK(dictionary[@1] == nil);
  CHECK_VIOLATION("attempt to insert nil", [dictionary setObject:(id)nil forKey:@1]);
  NSMutableString* key = [NSMutableString stringWithUTF8String:"k"];
  dictionary[key] = @1;
  [key appendString:@"2"];
  CHECK([dictionary[@"k"] intValue] == 1);
  [dictionary removeAllObjects];
  CHECK_EQUAL(dictionary.count, 0ul);
}

CASE(sets) {
  NSMutableSet* set = [NSMutableSet setWithArray:@[ @1, @2, @1 ]];
  CHECK_EQUAL(set.count, 2ul);
  [set addObject:@3];
  [set removeObject:@1];
  CHECK(([set isEqualToSet:[NSSet setWithObjects:@2, @3, nil]]));
  CHECK([[NSSet setWithObject:@2] isSubsetOfSet:set]);
}

CASE(data) {
  const uint8_t bytes[] = {1, 2, 3, 4};
  NSData* data = [NSData dataWithBytes:bytes length:4];
  CHECK_EQUAL(data.length, 4ul);
  CHECK(data.bytes != bytes);
  CHECK([data isEqualToData:[NSData dataWithBytes:bytes length:4]]);
}

CASE(errors) {
  NSError* error = [NSError errorWithDomain:@"Test" code:3 userInfo:@{NSLocalizedDescriptionKey : @"why"}];
  CHECK_STRING(error.localizedDescription, "why");
  CHECK_EQUAL(error.code, 3l);
  CHECK_STRING(error.description, "Error Domain=Test Code=3 \"why\"");
}

CASE(urls) {
  NSURL* url = [NSURL fileURLWithPath:@"/tmp/x"];
  CHECK_STRING(url.absoluteString, "file:///tmp/x");
  CHECK_STRING(url.path, "/tmp/x");
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
