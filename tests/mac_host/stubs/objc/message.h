// Apple's system headers are not free: these declare the little that metal-cpp takes from them.
#pragma once

#include <objc/objc.h>

extern "C" {
id objc_msgSend(id, SEL, ...);
void objc_msgSend_stret(id, SEL, ...);
double objc_msgSend_fpret(id, SEL, ...);
}
