#pragma once

#include <Foundation/Foundation.h>

#include <vector>

// All classes of the process that inherit from NSObject.
const std::vector<Class>& all_classes();
