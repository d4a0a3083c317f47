// precompiled.cc: nothing. A target has to have a source, and the one whose precompiled headers all
// tests in C++ share (tests/CMakeLists.txt) has this one.
