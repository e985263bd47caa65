#pragma once

#include <objc/objc.h>
#include <stdint.h>
#include <sys/types.h>

extern "C" {
Class objc_lookUpClass(const char*);
Class objc_getClass(const char*);
Protocol* objc_getProtocol(const char*);
const char* sel_getName(SEL);
SEL sel_registerName(const char*);
}
