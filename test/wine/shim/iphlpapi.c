/* iphlpapi.dll: Wine's own but for some functions.
 *
 * Stands in for: GetAdaptersAddresses with GAA_FLAG_INCLUDE_PREFIX, which fails in Wine 10 and breaks Go's net.Interfaces; and the same in the
 * first moments of a boot, when Wine's network driver is not loaded yet. On Windows it is before any service starts. Then routes and forwarding,
 * which Wine 10 cannot change: CreateIpForwardEntry2, DeleteIpForwardEntry2, InitializeIpForwardEntry, GetIpInterfaceEntry, SetIpInterfaceEntry.
 * Invents: nothing in addresses; the prefixes are left out. A route, and forwarding of an interface, is noted in the hardware until the next boot and
 * listed by GetIpForwardTable2; no packet goes another way for it. IPv4 only. */
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <iphlpapi.h>
#include <netioapi.h>
#include "bed.h"

typedef ULONG(WINAPI *addresses_t)(ULONG, ULONG, void *, void *, ULONG *);
typedef DWORD(WINAPI *table_t)(ADDRESS_FAMILY, PMIB_IPFORWARD_TABLE2 *);

#define PATIENCE 100 /* of 100 ms each */
#define MOST_ROUTES 10000

static FARPROC real(const char *name) { return GetProcAddress(LoadLibraryA("iphlpo.dll"), name); }

ULONG WINAPI my_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, void *out, ULONG *size)
{
    addresses_t call = (addresses_t)real("GetAdaptersAddresses");
    ULONG room = *size, error = call(family, flags & ~GAA_FLAG_INCLUDE_PREFIX, reserved, out, size);

    for (int i = 0; i < PATIENCE && error == ERROR_FILE_NOT_FOUND; i++)
    {
        Sleep(100);
        *size = room;
        error = call(family, flags & ~GAA_FLAG_INCLUDE_PREFIX, reserved, out, size);
    }
    return error;
}

/* ask returns the number that the hardware answers with. */
static DWORD ask(const char *verb, const char *rest)
{
    char message[256], *answer;
    DWORD out;

    snprintf(message, sizeof message, "%s\n%s", verb, rest);
    if (!(answer = bed_call(message))) return ERROR_GEN_FAILURE;
    out = strtoul(answer, NULL, 10);
    free(answer);
    return out;
}

static DWORD change_route(const char *verb, const MIB_IPFORWARD_ROW2 *row)
{
    char text[128];
    const unsigned char *d = (const unsigned char *)&row->DestinationPrefix.Prefix.Ipv4.sin_addr;
    const unsigned char *h = (const unsigned char *)&row->NextHop.Ipv4.sin_addr;

    if (row->DestinationPrefix.Prefix.si_family != AF_INET) return ERROR_NOT_SUPPORTED;
    snprintf(text, sizeof text, "%u.%u.%u.%u %u %u.%u.%u.%u %lu", d[0], d[1], d[2], d[3], row->DestinationPrefix.PrefixLength,
             h[0], h[1], h[2], h[3], row->InterfaceIndex);
    return ask(verb, text);
}

DWORD WINAPI my_CreateIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route("add-route", row); }
DWORD WINAPI my_DeleteIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route("delete-route", row); }

void WINAPI my_InitializeIpForwardEntry(PMIB_IPFORWARD_ROW2 row)
{
    memset(row, 0, sizeof *row);
    row->ValidLifetime = row->PreferredLifetime = row->Metric = ~0u;
    row->Loopback = row->AutoconfigureAddress = row->Publish = row->Immortal = TRUE;
}

static void set_address(SOCKADDR_INET *out, unsigned a, unsigned b, unsigned c, unsigned d)
{
    unsigned char *bytes = (unsigned char *)&out->Ipv4.sin_addr;

    out->si_family = AF_INET;
    bytes[0] = a, bytes[1] = b, bytes[2] = c, bytes[3] = d;
}

static BOOL read_route(const char *line, MIB_IPFORWARD_ROW2 *row)
{
    unsigned d[4], h[4], length, index;

    if (sscanf(line, "%u.%u.%u.%u %u %u.%u.%u.%u %u", d, d + 1, d + 2, d + 3, &length, h, h + 1, h + 2, h + 3, &index) != 10) return FALSE;
    my_InitializeIpForwardEntry(row);
    set_address(&row->DestinationPrefix.Prefix, d[0], d[1], d[2], d[3]);
    set_address(&row->NextHop, h[0], h[1], h[2], h[3]);
    row->DestinationPrefix.PrefixLength = (UINT8)length;
    row->InterfaceIndex = index;
    row->Metric = 0;
    row->Protocol = 3; /* MIB_IPPROTO_NETMGMT */
    return TRUE;
}

DWORD WINAPI my_GetIpForwardTable2(ADDRESS_FAMILY family, PMIB_IPFORWARD_TABLE2 *out)
{
    table_t call = (table_t)real("GetIpForwardTable2");
    DWORD error = call(family, out);
    PMIB_IPFORWARD_TABLE2 all;
    char *answer, *line;

    if (error || family == AF_INET6 || !(answer = bed_call("routes\n"))) return error;
    /* FreeMibTable gives the memory back to the heap of the process. */
    all = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *all + ((*out)->NumEntries + MOST_ROUTES) * sizeof all->Table[0]);
    if (!all)
    {
        free(answer);
        return error;
    }
    all->NumEntries = (*out)->NumEntries;
    memcpy(all->Table, (*out)->Table, all->NumEntries * sizeof all->Table[0]);
    for (line = strtok(answer, "\n"); line && all->NumEntries < (*out)->NumEntries + MOST_ROUTES; line = strtok(NULL, "\n"))
        if (read_route(line, &all->Table[all->NumEntries])) all->NumEntries++;
    HeapFree(GetProcessHeap(), 0, *out);
    free(answer);
    *out = all;
    return error;
}

DWORD WINAPI my_GetIpInterfaceEntry(PMIB_IPINTERFACE_ROW row)
{
    char text[32];

    snprintf(text, sizeof text, "%lu", row->InterfaceIndex);
    row->ForwardingEnabled = ask("forwarding", text) == 1;
    row->SitePrefixLength = 64; /* as Windows does */
    return NO_ERROR;
}

DWORD WINAPI my_SetIpInterfaceEntry(PMIB_IPINTERFACE_ROW row)
{
    char text[32];

    if (row->Family == AF_INET && row->SitePrefixLength) return ERROR_INVALID_PARAMETER;
    snprintf(text, sizeof text, "%lu %d", row->InterfaceIndex, !!row->ForwardingEnabled);
    return ask("set-forwarding", text);
}
