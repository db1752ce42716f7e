/* ntacl.h: security descriptors of files.
 *
 * Stands in for: NTFS, which keeps owner and access list of a file. Wine 10 maps them to Unix permissions, so that a list that was written
 * does not read back.
 * Invents: the place, C:\windows\bed\acl\<file number>, where each descriptor that a program sets lies as a file. Nothing is enforced and
 * nothing is inherited: a file that nobody gave a descriptor has the one that Wine makes of its permissions. A change of only the owner or only
 * the list is not kept. */
#ifndef NTACL_H
#define NTACL_H
#include "ntpath.h"
#include <stdio.h>

typedef NTSTATUS(WINAPI *set_security_t)(HANDLE, ULONG, PSECURITY_DESCRIPTOR);
typedef NTSTATUS(WINAPI *query_security_t)(HANDLE, ULONG, PSECURITY_DESCRIPTOR, ULONG, ULONG *);
typedef NTSTATUS(WINAPI *relative_t)(PSECURITY_DESCRIPTOR, PSECURITY_DESCRIPTOR, ULONG *);

static set_security_t real_set_security;
static query_security_t real_query_security;
static relative_t make_relative;

#define LONGEST_DESCRIPTOR 4096
#define BOTH (OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION)

/* acl_open opens the file in which the descriptor of an open file lies. What is no file on a disk has none. */
static BOOL acl_open(HANDLE file, ULONG access, ULONG disposition, HANDLE *out)
{
    IO_STATUS_BLOCK io;
    ULONGLONG number = 0;
    WCHAR name[80];
    int length;

    if (real_query_file(file, &io, &number, sizeof number, 6 /* FileInternalInformation */) || !number) return FALSE;
    length = swprintf(name, 80, L"\\??\\C:\\windows\\bed\\acl\\%016llx", number);
    return !open_named(NULL, name, length * sizeof *name, access, disposition, out);
}

static void acl_save(HANDLE file, PSECURITY_DESCRIPTOR descriptor)
{
    char buffer[LONGEST_DESCRIPTOR];
    ULONG size = sizeof buffer;
    HANDLE side;
    DWORD written;

    if (make_relative(descriptor, buffer, &size) || !acl_open(file, GENERIC_WRITE, FILE_OVERWRITE_IF, &side)) return;
    WriteFile(side, buffer, size, &written, NULL);
    CloseHandle(side);
}

/* acl_forget removes what an earlier file of the same number may have left. */
static void acl_forget(HANDLE file)
{
    HANDLE side;

    if (!acl_open(file, DELETE, FILE_OPEN, &side)) return;
    mark_deleted(side, TRUE);
    CloseHandle(side);
}

static NTSTATUS WINAPI my_create_file(HANDLE *file, ULONG access, OBJECT_ATTRIBUTES *object, IO_STATUS_BLOCK *io, LARGE_INTEGER *size,
                                      ULONG attributes, ULONG sharing, ULONG disposition, ULONG options, void *ea, ULONG ea_size)
{
    NTSTATUS status = real_create_file(file, access, object, io, size, attributes, sharing, disposition, options, ea, ea_size);

    if (!status && io->Information == FILE_CREATED)
    {
        if (object->SecurityDescriptor) acl_save(*file, object->SecurityDescriptor);
        else acl_forget(*file);
    }
    return status;
}

static NTSTATUS WINAPI my_set_security(HANDLE object, ULONG what, PSECURITY_DESCRIPTOR descriptor)
{
    NTSTATUS status = real_set_security(object, what, descriptor);

    if (!status && (what & BOTH) == BOTH) acl_save(object, descriptor);
    return status;
}

static NTSTATUS WINAPI my_query_security(HANDLE object, ULONG what, PSECURITY_DESCRIPTOR out, ULONG size, ULONG *needed)
{
    char buffer[LONGEST_DESCRIPTOR];
    HANDLE side;
    DWORD length = 0;

    if (!(what & BOTH) || !acl_open(object, GENERIC_READ, FILE_OPEN, &side)) return real_query_security(object, what, out, size, needed);
    if (!ReadFile(side, buffer, sizeof buffer, &length, NULL)) length = 0;
    CloseHandle(side);
    if (!length) return real_query_security(object, what, out, size, needed);
    *needed = length;
    if (size < length) return 0xc0000023; /* STATUS_BUFFER_TOO_SMALL */
    memcpy(out, buffer, length);
    return 0;
}

#endif
