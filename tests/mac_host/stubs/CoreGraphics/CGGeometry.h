#pragma once

#include <CoreFoundation/CoreFoundation.h>

struct CGSize {
  CGFloat width, height;
};
struct CGPoint {
  CGFloat x, y;
};
struct CGRect {
  CGPoint origin;
  CGSize size;
};
