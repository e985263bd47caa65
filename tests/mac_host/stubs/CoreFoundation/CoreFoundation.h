#pragma once

#include <dispatch/dispatch.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef double CGFloat;
typedef const void* CFTypeRef;
typedef long CFIndex;
#define CFSTR(text) ((const void*)__builtin___CFStringMakeConstantString(text))
