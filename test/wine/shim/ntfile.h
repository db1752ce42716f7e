/* ntfile.h: renaming over an open file, symbolic links to files, and news of a changed time.
 *
 * Stands in for: FILE_NOTIFY_CHANGE_LAST_WRITE of a file whose time of the last write was set (Wine 10 tells of writes only); FILE_RENAME_POSIX_SEMANTICS, with which NTFS replaces a file that others have open for as long as they share deletion
 * (Wine 10 refuses), and CreateSymbolicLink (a stub in Wine 10 that says yes and makes nothing, after which a kubelet cannot find its own
 * certificate).
 * Invents: the replaced file lives on under another name until its last handle is closed. A link to a file is a copy of it with the
 * attributes hidden and system, reported as a reparse point of kind symbolic link; it cannot be read as a link, and folders cannot be
 * linked to. */
#ifndef NTFILE_H
#define NTFILE_H
#include "ntpath.h"
#include <stdio.h>

#define RENAME_EX 65 /* FileRenameInformationEx */
#define RENAME 10    /* FileRenameInformation */
#define REPLACE_POSIX 3
#define ACCESS_DENIED_STATUS ((NTSTATUS)0xc0000022)

struct rename_request
{
    ULONG flags;
    HANDLE folder;
    ULONG bytes;
    WCHAR name[600];
};

/* step_aside moves the file that is to be replaced to another name in its folder. It refuses, as Windows does, what a running program is
 * loaded from: such a file cannot be marked for deletion. */
static HANDLE step_aside(const struct rename_request *wanted)
{
    static LONG count;
    struct rename_request aside = {0, NULL, 0, {0}};
    const WCHAR *last = wanted->name + wanted->bytes / sizeof(WCHAR);
    IO_STATUS_BLOCK io;
    HANDLE target;
    int prefix;

    if (open_named(wanted->folder, wanted->name, wanted->bytes, DELETE, FILE_OPEN, &target)) return NULL;
    if (mark_deleted(target, TRUE) || mark_deleted(target, FALSE))
    {
        CloseHandle(target);
        return NULL;
    }
    while (last > wanted->name && last[-1] != '\\') last--;
    prefix = (int)(last - wanted->name);
    memcpy(aside.name, wanted->name, prefix * sizeof(WCHAR));
    aside.folder = wanted->folder;
    aside.bytes = sizeof(WCHAR) * (prefix + swprintf(aside.name + prefix, 60, L".replaced-%lx-%lx", GetCurrentProcessId(), InterlockedIncrement(&count)));
    if (real_set_file(target, &io, &aside, sizeof aside, RENAME) || mark_deleted(target, TRUE))
    {
        CloseHandle(target);
        return NULL;
    }
    return target;
}

static NTSTATUS WINAPI my_set_file(HANDLE file, IO_STATUS_BLOCK *io, void *data, ULONG size, ULONG class)
{
    NTSTATUS status = real_set_file(file, io, data, size, class);
    const struct rename_request *wanted = data;
    HANDLE target;

    if (status != ACCESS_DENIED_STATUS || class != RENAME_EX || (wanted->flags & REPLACE_POSIX) != REPLACE_POSIX) return status;
    if (wanted->bytes > sizeof wanted->name / 2 || !(target = step_aside(wanted))) return status;
    status = real_set_file(file, io, data, size, class);
    CloseHandle(target);
    return status;
}

typedef NTSTATUS(WINAPI *notify_t)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, void *, ULONG, ULONG, BOOLEAN);
static notify_t real_notify;

/* my_notify asks for changes of attributes too, of which Linux takes a time for one. */
static NTSTATUS WINAPI my_notify(HANDLE folder, HANDLE event, void *routine, void *context, IO_STATUS_BLOCK *io, void *out, ULONG size,
                                 ULONG filter, BOOLEAN tree)
{
    if (filter & FILE_NOTIFY_CHANGE_LAST_WRITE) filter |= FILE_NOTIFY_CHANGE_ATTRIBUTES;
    return real_notify(folder, event, routine, context, io, out, size, filter, tree);
}

#define LINK_MARK (FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM)

typedef NTSTATUS(WINAPI *query_full_t)(OBJECT_ATTRIBUTES *, char *);
static query_full_t real_query_full;

static BOOL is_link(ULONG attributes) { return (attributes & (LINK_MARK | FILE_ATTRIBUTE_DIRECTORY)) == LINK_MARK; }

static void show_link(void *attributes, void *tag)
{
    ULONG now = *(ULONG *)attributes;

    if (!is_link(now)) return;
    *(ULONG *)attributes = (now & ~LINK_MARK) | FILE_ATTRIBUTE_REPARSE_POINT;
    if (tag) *(ULONG *)tag = IO_REPARSE_TAG_SYMLINK;
}

static NTSTATUS WINAPI my_query_full(OBJECT_ATTRIBUTES *object, char *info)
{
    NTSTATUS status = real_query_full(object, info);
    if (!status) show_link(info + 0x30, NULL);
    return status;
}

static NTSTATUS WINAPI my_query_file(HANDLE file, IO_STATUS_BLOCK *io, void *data, ULONG size, ULONG class)
{
    NTSTATUS status = real_query_file(file, io, data, size, class);
    char *info = data;

    if (status) return status;
    switch (class)
    {
    case 4:  /* FileBasicInformation */
    case 18: /* FileAllInformation */
        if (size >= 0x24) show_link(info + 0x20, NULL);
        break;
    case 34: /* FileNetworkOpenInformation */
        if (size >= 0x34) show_link(info + 0x30, NULL);
        break;
    case 35: /* FileAttributeTagInformation */
        if (size >= 8) show_link(info, info + 4);
        break;
    case 68: /* FileStatInformation */
        if (size >= 0x40) show_link(info + 0x38, info + 0x3c);
        break;
    }
    return status;
}

static BOOLEAN WINAPI my_symbolic_link(const WCHAR *link, const WCHAR *target, DWORD flags)
{
    WCHAR path[600];
    WCHAR *last;
    DWORD attributes;

    if (target[0] != '\\' && target[1] != ':')
    {
        lstrcpynW(path, link, 300);
        last = wcsrchr(path, '\\');
        lstrcpynW(last ? last + 1 : path, target, 290);
        target = path;
    }
    attributes = GetFileAttributesW(target);
    if (attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_DIRECTORY))
    {
        SetLastError(ERROR_NOT_SUPPORTED);
        return FALSE;
    }
    return CopyFileW(target, link, TRUE) && SetFileAttributesW(link, LINK_MARK);
}

#endif
