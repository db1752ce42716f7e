/* patch.h: replaces functions of Wine's libraries within one process.
 *
 * Stands in for: nothing; it is how the corrections in nt*.h and scm.h get between a program and Wine.
 * Invents: nothing. ntdll's system calls are 32 bytes of position-independent code in Wine 10 (mov r10,rcx; mov eax,number; ...), so that
 * a copy of them is the original function; a function that looks different is left alone. */
#ifndef PATCH_H
#define PATCH_H
#include <windows.h>
#include <string.h>

#define THUNK_SIZE 32

/* patch_jump writes "mov rax, target; jmp rax" over the beginning of a function. */
static void patch_jump(unsigned char *function, void *target)
{
    unsigned char code[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    DWORD old;

    if (!function || !VirtualProtect(function, sizeof code, PAGE_EXECUTE_READWRITE, &old)) return;
    memcpy(code + 2, &target, 8);
    memcpy(function, code, sizeof code);
    VirtualProtect(function, sizeof code, old, &old);
}

/* patch_syscall puts mine in front of a system call and returns the original, NULL when it left everything as it was. */
static void *patch_syscall(const char *name, void *mine)
{
    static const unsigned char head[4] = {0x4c, 0x8b, 0xd1, 0xb8};
    unsigned char *function = (void *)GetProcAddress(GetModuleHandleA("ntdll.dll"), name);
    unsigned char *copy;

    if (!function || memcmp(function, head, sizeof head)) return NULL;
    copy = VirtualAlloc(NULL, THUNK_SIZE, MEM_COMMIT | MEM_RESERVE, PAGE_EXECUTE_READWRITE);
    if (!copy) return NULL;
    memcpy(copy, function, THUNK_SIZE);
    patch_jump(function, mine);
    return copy;
}

/* patch_export points a function of advapi32, which jumps through a slot to another library, at mine. It returns the original, NULL when
 * the function is not of that kind. */
static void *patch_export(const char *name, void *mine)
{
    unsigned char *function = (void *)GetProcAddress(GetModuleHandleA("advapi32.dll"), name);
    void **slot, *original;
    DWORD old;

    if (!function) return NULL;
    if (function[0] == 0x48 && function[1] == 0x8d) function += 8; /* lea rsp,[rsp+0]: room for patches */
    if (function[0] != 0xff || function[1] != 0x25) return NULL;   /* jmp [rip+n] */
    slot = (void **)(function + 6 + *(int *)(function + 2));
    original = *slot;
    if (!VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &old)) return NULL;
    *slot = mine;
    VirtualProtect(slot, sizeof *slot, old, &old);
    return original;
}

#endif
