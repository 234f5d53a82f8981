#pragma once

#include <Foundation/NSEnumerator.h>
#include <Foundation/NSObject.h>
#include <Foundation/NSRange.h>

@class NSString;

typedef NSComparisonResult (^NSComparator)(id left, id right);

@interface NSArray<__covariant ObjectType> : NSObject <NSCopying, NSMutableCopying, NSSecureCoding, NSFastEnumeration>
@property(readonly) NSUInteger count;
- (ObjectType)objectAtIndex:(NSUInteger)index;
@end

@interface NSArray<ObjectType> (NSExtendedArray)
@property(readonly) ObjectType firstObject;
@property(readonly) ObjectType lastObject;
- (ObjectType)objectAtIndexedSubscript:(NSUInteger)index;
- (NSArray<ObjectType>*)arrayByAddingObject:(ObjectType)object;
- (NSArray<ObjectType>*)arrayByAddingObjectsFromArray:(NSArray<ObjectType>*)other;
- (NSString*)componentsJoinedByString:(NSString*)separator;
- (BOOL)containsObject:(ObjectType)object;
- (NSUInteger)indexOfObject:(ObjectType)object;
- (NSUInteger)indexOfObjectIdenticalTo:(ObjectType)object;
- (BOOL)isEqualToArray:(NSArray<ObjectType>*)other;
- (NSArray<ObjectType>*)subarrayWithRange:(NSRange)range;
- (void)getObjects:(ObjectType __unsafe_unretained[])objects range:(NSRange)range;
- (NSArray<ObjectType>*)sortedArrayUsingSelector:(SEL)comparator;
- (NSArray<ObjectType>*)sortedArrayUsingComparator:(NSComparator)comparator;
- (void)enumerateObjectsUsingBlock:(void (^)(ObjectType object, NSUInteger index, BOOL* stop))block;
- (NSEnumerator<ObjectType>*)objectEnumerator;
- (NSEnumerator<ObjectType>*)reverseObjectEnumerator;
@end

@interface NSArray<ObjectType> (NSArrayCreation)
+ (instancetype)array;
+ (instancetype)arrayWithObject:(ObjectType)object;
+ (instancetype)arrayWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
+ (instancetype)arrayWithObjects:(ObjectType)first, ... NS_REQUIRES_NIL_TERMINATION;
+ (instancetype)arrayWithArray:(NSArray<ObjectType>*)array;
- (instancetype)initWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
- (instancetype)initWithObjects:(ObjectType)first, ... NS_REQUIRES_NIL_TERMINATION;
- (instancetype)initWithArray:(NSArray<ObjectType>*)array;
- (instancetype)initWithArray:(NSArray<ObjectType>*)array copyItems:(BOOL)copy;
@end

@interface NSMutableArray<ObjectType> : NSArray <ObjectType>
- (void)addObject:(ObjectType)object;
- (void)insertObject:(ObjectType)object atIndex:(NSUInteger)index;
- (void)removeLastObject;
- (void)removeObjectAtIndex:(NSUInteger)index;
- (void)replaceObjectAtIndex:(NSUInteger)index withObject:(ObjectType)object;
@end

@interface NSMutableArray<ObjectType> (NSExtendedMutableArray)
+ (instancetype)arrayWithCapacity:(NSUInteger)capacity;
- (instancetype)initWithCapacity:(NSUInteger)capacity;
- (void)addObjectsFromArray:(NSArray<ObjectType>*)array;
- (void)exchangeObjectAtIndex:(NSUInteger)first withObjectAtIndex:(NSUInteger)second;
- (void)removeAllObjects;
- (void)removeObject:(ObjectType)object;
- (void)removeObjectIdenticalTo:(ObjectType)object;
- (void)removeObjectsInRange:(NSRange)range;
- (void)setArray:(NSArray<ObjectType>*)array;
- (void)setObject:(ObjectType)object atIndexedSubscript:(NSUInteger)index;
- (void)sortUsingComparator:(NSComparator)comparator;
- (void)sortUsingSelector:(SEL)comparator;
@end
