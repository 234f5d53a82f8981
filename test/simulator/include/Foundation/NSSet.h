#pragma once

#include <Foundation/NSArray.h>
#include <Foundation/NSEnumerator.h>
#include <Foundation/NSObject.h>

@interface NSSet<__covariant ObjectType> : NSObject <NSCopying, NSMutableCopying, NSSecureCoding, NSFastEnumeration>
@property(readonly) NSUInteger count;
- (ObjectType)member:(ObjectType)object;
- (NSEnumerator<ObjectType>*)objectEnumerator;
@end

@interface NSSet<ObjectType> (NSExtendedSet)
@property(readonly, copy) NSArray<ObjectType>* allObjects;
- (ObjectType)anyObject;
- (BOOL)containsObject:(ObjectType)object;
- (BOOL)isEqualToSet:(NSSet<ObjectType>*)other;
- (BOOL)isSubsetOfSet:(NSSet<ObjectType>*)other;
- (BOOL)intersectsSet:(NSSet<ObjectType>*)other;
@end

@interface NSSet<ObjectType> (NSSetCreation)
+ (instancetype)set;
+ (instancetype)setWithObject:(ObjectType)object;
+ (instancetype)setWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
+ (instancetype)setWithObjects:(ObjectType)first, ... NS_REQUIRES_NIL_TERMINATION;
+ (instancetype)setWithArray:(NSArray<ObjectType>*)array;
+ (instancetype)setWithSet:(NSSet<ObjectType>*)set;
- (instancetype)initWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
- (instancetype)initWithArray:(NSArray<ObjectType>*)array;
- (instancetype)initWithSet:(NSSet<ObjectType>*)set;
@end

@interface NSMutableSet<ObjectType> : NSSet <ObjectType>
+ (instancetype)setWithCapacity:(NSUInteger)capacity;
- (instancetype)initWithCapacity:(NSUInteger)capacity;
- (void)addObject:(ObjectType)object;
- (void)removeObject:(ObjectType)object;
- (void)removeAllObjects;
- (void)addObjectsFromArray:(NSArray<ObjectType>*)array;
- (void)unionSet:(NSSet<ObjectType>*)other;
- (void)minusSet:(NSSet<ObjectType>*)other;
@end
