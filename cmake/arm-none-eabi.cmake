# Compiles for a 32-bit Cortex-M4 without an operating system, with Debian's compiler and no C
# library, and runs the tests under qemu-system-arm, on a board of the same processor. Output and
# exit status come by semihosting.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-m4)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m4 -mthumb")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a program would need a board

find_program(LOAM_QEMU_ARM NAMES qemu-system-arm)
if(LOAM_QEMU_ARM)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${LOAM_QEMU_ARM} -machine mps2-an386 -display none -monitor none
    -serial none -semihosting-config enable=on,target=native -kernel)
else() # 77: a test that cannot run here
  set(CMAKE_CROSSCOMPILING_EMULATOR sh
    -c "echo SKIPPED: qemu-system-arm is not installed && exit 77")
endif()
