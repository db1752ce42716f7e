/* ws2_32.dll: Wine's own, with local sockets, and the door through which nt*.h and scm.h come into a process. Every program that a machine
 * runs and that matters here is written in Go and loads this library before its main function.
 *
 * Stands in for: AF_UNIX stream sockets, which Windows has since 2018 and Wine 10 has not.
 * Invents: the socket is one of TCP on the loopback interface, and the file that stands for it holds its port. */
#include <winsock2.h>
#include <windows.h>
#include <stdio.h>
#include <string.h>
#include "ntacl.h"
#include "ntfile.h"
#include "ntsystem.h"
#include "patch.h"
#include "scm.h"

#define AF_LOCAL_SOCKET 1
#define LONGEST_PATH 108

static void *real(const char *name)
{
    static HMODULE library;
    if (!library) library = LoadLibraryA("ws2_3o.dll");
    return (void *)GetProcAddress(library, name);
}

typedef int(WINAPI *address_t)(SOCKET, const struct sockaddr *, int);
typedef int(WINAPI *name_t)(SOCKET, struct sockaddr *, int *);

static void fail(int error) { ((void(WINAPI *)(int))real("WSASetLastError"))(error); }

/* path_of reads the file's name out of a local address. */
static void path_of(const struct sockaddr *address, int length, WCHAR *out)
{
    char path[LONGEST_PATH + 1];
    int n = length - 2;

    n = n < 0 ? 0 : n > LONGEST_PATH ? LONGEST_PATH : n;
    memcpy(path, (const char *)address + 2, n);
    path[n] = 0;
    MultiByteToWideChar(CP_UTF8, 0, path, -1, out, 260);
    for (; *out; out++)
        if (*out == '/') *out = '\\';
}

static struct sockaddr_in loopback(unsigned short port)
{
    struct sockaddr_in in = {0};

    in.sin_family = AF_INET;
    in.sin_addr.s_addr = 0x0100007f;
    in.sin_port = (unsigned short)((port << 8) | (port >> 8));
    return in;
}

/* port_in reads the port out of a socket's file, 0 when it is none. */
static unsigned short port_in(const WCHAR *path)
{
    char text[32] = {0};
    DWORD read;
    int port = 0;
    HANDLE file = CreateFileW(path, GENERIC_READ, SHARE_ALL, NULL, OPEN_EXISTING, 0, NULL);

    if (file == INVALID_HANDLE_VALUE) return 0;
    if (!ReadFile(file, text, sizeof text - 1, &read, NULL) || sscanf(text, "unix:%d", &port) != 1) port = 0;
    CloseHandle(file);
    return (unsigned short)port;
}

SOCKET WINAPI my_WSASocketW(int family, int type, int protocol, void *info, unsigned group, DWORD flags)
{
    SOCKET(WINAPI * open)(int, int, int, void *, unsigned, DWORD) = real("WSASocketW");

    if (family != AF_LOCAL_SOCKET) return open(family, type, protocol, info, group, flags);
    return open(AF_INET, type, 0, NULL, group, flags);
}

/* The names of bound sockets, for getsockname. */
static struct
{
    SOCKET socket;
    char path[LONGEST_PATH + 2];
} bound[256];

#define SLOT(s) ((int)(((s) >> 2) & 255))

/* is_stale: nobody listens behind the file. Go on Windows takes such a file for a socket and removes it; here it is a plain one. */
static BOOL is_stale(const WCHAR *path)
{
    unsigned short port = port_in(path);
    struct sockaddr_in in = loopback(port);
    SOCKET s;
    int refused;

    if (!port) return FALSE;
    s = my_WSASocketW(AF_INET, SOCK_STREAM, 0, NULL, 0, 0);
    refused = ((address_t)real("connect"))(s, (struct sockaddr *)&in, sizeof in);
    ((int(WINAPI *)(SOCKET))real("closesocket"))(s);
    return refused;
}

static HANDLE make_file(const WCHAR *path)
{
    HANDLE file = CreateFileW(path, GENERIC_WRITE, SHARE_ALL, NULL, CREATE_NEW, 0, NULL);

    if (file != INVALID_HANDLE_VALUE || GetLastError() != ERROR_FILE_EXISTS || !is_stale(path) || !DeleteFileW(path)) return file;
    return CreateFileW(path, GENERIC_WRITE, SHARE_ALL, NULL, CREATE_NEW, 0, NULL);
}

int WINAPI my_bind(SOCKET s, const struct sockaddr *address, int length)
{
    address_t bind = real("bind");
    struct sockaddr_in in = loopback(0);
    int size = sizeof in;
    WCHAR path[260];
    char text[32];
    DWORD written;
    HANDLE file;

    if (!address || address->sa_family != AF_LOCAL_SOCKET) return bind(s, address, length);
    path_of(address, length, path);
    if (!path[0]) return bind(s, (struct sockaddr *)&in, sizeof in);
    file = make_file(path);
    if (file == INVALID_HANDLE_VALUE)
    {
        fail(GetLastError() == ERROR_FILE_EXISTS ? WSAEADDRINUSE : WSAEACCES);
        return SOCKET_ERROR;
    }
    if (bind(s, (struct sockaddr *)&in, sizeof in) || ((name_t)real("getsockname"))(s, (struct sockaddr *)&in, &size))
    {
        CloseHandle(file);
        return SOCKET_ERROR;
    }
    WriteFile(file, text, sprintf(text, "unix:%d\n", ((in.sin_port & 0xff) << 8) | (in.sin_port >> 8)), &written, NULL);
    CloseHandle(file);
    bound[SLOT(s)].socket = s;
    snprintf(bound[SLOT(s)].path, sizeof bound->path, "%.*s", length - 2, (const char *)address + 2);
    return 0;
}

int WINAPI my_getsockname(SOCKET s, struct sockaddr *address, int *length)
{
    int size;

    if (!s || bound[SLOT(s)].socket != s || *length < 4) return ((name_t)real("getsockname"))(s, address, length);
    size = (int)strlen(bound[SLOT(s)].path) + 1;
    if (size > *length - 2) size = *length - 2;
    address->sa_family = AF_LOCAL_SOCKET;
    memcpy((char *)address + 2, bound[SLOT(s)].path, size);
    *length = size + 2;
    return 0;
}

int WINAPI my_closesocket(SOCKET s)
{
    if (bound[SLOT(s)].socket == s) bound[SLOT(s)].socket = 0;
    return ((int(WINAPI *)(SOCKET))real("closesocket"))(s);
}

int WINAPI my_connect(SOCKET s, const struct sockaddr *address, int length)
{
    address_t connect = real("connect");
    struct sockaddr_in in;
    unsigned short port;
    WCHAR path[260];

    if (!address || address->sa_family != AF_LOCAL_SOCKET) return connect(s, address, length);
    path_of(address, length, path);
    if (!(port = port_in(path)))
    {
        fail(WSAECONNREFUSED);
        return SOCKET_ERROR;
    }
    in = loopback(port);
    return connect(s, (struct sockaddr *)&in, sizeof in);
}

static void install(void)
{
    static const char *const libraries[] = {"kernelbase.dll", "kernel32.dll"};
    HMODULE ntdll = GetModuleHandleA("ntdll.dll");

    make_relative = (relative_t)GetProcAddress(ntdll, "RtlMakeSelfRelativeSD");
    for (int i = 0; i < 2; i++) patch_jump((void *)GetProcAddress(GetModuleHandleA(libraries[i]), "CreateSymbolicLinkW"), my_symbolic_link);
    real_query_file = patch_syscall("NtQueryInformationFile", my_query_file);
    real_set_file = patch_syscall("NtSetInformationFile", my_set_file);
    real_create_file = patch_syscall("NtCreateFile", my_create_file);
    real_query_full = patch_syscall("NtQueryFullAttributesFile", my_query_full);
    real_notify = patch_syscall("NtNotifyChangeDirectoryFile", my_notify);
    real_set_security = patch_syscall("NtSetSecurityObject", my_set_security);
    real_query_security = patch_syscall("NtQuerySecurityObject", my_query_security);
    real_query_system = patch_syscall("NtQuerySystemInformation", my_query_system);
    real_query_token = patch_syscall("NtQueryInformationToken", my_query_token);
    real_create_pipe = patch_syscall("NtCreateNamedPipeFile", my_create_pipe);
    scm_install();
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, void *reserved)
{
    if (reason == DLL_PROCESS_ATTACH) install();
    return TRUE;
}
