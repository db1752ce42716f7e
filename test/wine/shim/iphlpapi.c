/* iphlpapi.dll: Wine's own but for one function.
 *
 * Stands in for: GetAdaptersAddresses with GAA_FLAG_INCLUDE_PREFIX, which fails in Wine 10 and breaks Go's net.Interfaces; and the same in the
 * first moments of a boot, when Wine's network driver is not loaded yet. On Windows it is before any service starts.
 * Invents: nothing; the prefixes are left out. */
#include <winsock2.h>
#include <windows.h>
#include <iphlpapi.h>

typedef ULONG(WINAPI *addresses_t)(ULONG, ULONG, void *, void *, ULONG *);

#define PATIENCE 100 /* of 100 ms each */

ULONG WINAPI my_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, void *out, ULONG *size)
{
    addresses_t real = (addresses_t)GetProcAddress(LoadLibraryA("iphlpo.dll"), "GetAdaptersAddresses");
    ULONG room = *size, error = real(family, flags & ~GAA_FLAG_INCLUDE_PREFIX, reserved, out, size);

    for (int i = 0; i < PATIENCE && error == ERROR_FILE_NOT_FOUND; i++)
    {
        Sleep(100);
        *size = room;
        error = real(family, flags & ~GAA_FLAG_INCLUDE_PREFIX, reserved, out, size);
    }
    return error;
}
