/* hnetcfg.dll: Windows Firewall with Advanced Security, for scripts (IDispatch).
 *
 * Stands in for: HNetCfg.FwPolicy2 with its collection of rules, and HNetCfg.FwRule. Wine 10 has the first without rules, and not the second.
 * Invents: that only Rules, Add, Remove, Item, Count and the enumeration exist, and of a rule the properties in rule_names. The rules lie with
 * the machine's hardware (bed.h) as texts; no packet is filtered. */
#define COBJMACROS
#define INITGUID
#include "bed.h"
#include <oleauto.h>
#include <objbase.h>

DEFINE_GUID(CLSID_Policy2, 0xe2b3c97f, 0x6ae1, 0x41ac, 0x81, 0x7a, 0xf6, 0xf9, 0x21, 0x66, 0xd7, 0xdd);
DEFINE_GUID(CLSID_Rule, 0x2c5bc43e, 0x3369, 0x4c33, 0xab, 0x0c, 0xbe, 0x94, 0x69, 0x67, 0x7a, 0xf4);

#define PROPERTIES 10
#define UNIT "\x1f"   /* between the properties of a rule */
#define RECORD "\x1e" /* between rules */

/* The properties of a rule; the number of one is its DISPID less 1. */
static const WCHAR *const rule_names[PROPERTIES] = {L"Name", L"Grouping", L"LocalPorts", L"RemoteAddresses", L"ApplicationName",
                                                    L"Enabled", L"Protocol", L"Direction", L"Action", L"Profiles"};
static const VARTYPE rule_types[PROPERTIES] = {VT_BSTR, VT_BSTR, VT_BSTR, VT_BSTR, VT_BSTR, VT_BOOL, VT_I4, VT_I4, VT_I4, VT_I4};
static const char *const rule_defaults[PROPERTIES] = {"", "", "", "*", "", "0", "256", "1", "1", "2147483647"};

enum kind { POLICY, RULES, RULE };
enum member { MEMBER_RULES = 1, MEMBER_ADD, MEMBER_REMOVE, MEMBER_ITEM, MEMBER_COUNT };

static const WCHAR *const member_names[] = {L"Rules", L"Add", L"Remove", L"Item", L"Count"};

struct object
{
    IDispatch dispatch;
    LONG references;
    enum kind kind;
    /* A rule's properties, and its text in the collection, NULL for one that is not in it. */
    char *values[PROPERTIES];
    char *stored;
};

static struct object *make(enum kind kind);

static struct object *self(IDispatch *d) { return (struct object *)d; }

static HRESULT WINAPI query(IDispatch *d, REFIID id, void **out)
{
    *out = NULL;
    if (!IsEqualIID(id, &IID_IUnknown) && !IsEqualIID(id, &IID_IDispatch)) return E_NOINTERFACE;
    *out = d;
    IDispatch_AddRef(d);
    return S_OK;
}

static ULONG WINAPI add_ref(IDispatch *d) { return InterlockedIncrement(&self(d)->references); }

static ULONG WINAPI release(IDispatch *d)
{
    struct object *o = self(d);
    LONG left = InterlockedDecrement(&o->references);

    if (left) return left;
    for (int i = 0; i < PROPERTIES; i++) free(o->values[i]);
    free(o->stored);
    free(o);
    return 0;
}

static HRESULT WINAPI type_count(IDispatch *d, UINT *out) { *out = 0; return S_OK; }
static HRESULT WINAPI type_info(IDispatch *d, UINT n, LCID l, ITypeInfo **out) { return DISP_E_BADINDEX; }

static DISPID find(const WCHAR *const *names, int count, const WCHAR *name)
{
    for (int i = 0; i < count; i++)
        if (!lstrcmpiW(names[i], name)) return i + 1;
    return DISPID_UNKNOWN;
}

static HRESULT WINAPI ids(IDispatch *d, REFIID id, OLECHAR **names, UINT count, LCID l, DISPID *out)
{
    if (!lstrcmpiW(names[0], L"_NewEnum")) *out = DISPID_NEWENUM;
    else if (self(d)->kind == RULE) *out = find(rule_names, PROPERTIES, names[0]);
    else *out = find(member_names, MEMBER_COUNT, names[0]);
    return *out == DISPID_UNKNOWN ? DISP_E_UNKNOWNNAME : S_OK;
}

static char *text_of(const VARIANT *v)
{
    VARIANT text;
    char *out;

    VariantInit(&text);
    if (V_VT(v) == VT_BOOL) return _strdup(V_BOOL(v) ? "1" : "0");
    if (FAILED(VariantChangeType(&text, (VARIANT *)v, 0, VT_BSTR))) return _strdup("");
    out = bed_utf8(V_BSTR(&text));
    VariantClear(&text);
    return out;
}

static BSTR bstr_of(const char *utf8)
{
    int size = MultiByteToWideChar(CP_UTF8, 0, utf8, -1, NULL, 0);
    BSTR out = SysAllocStringLen(NULL, size - 1);

    MultiByteToWideChar(CP_UTF8, 0, utf8, -1, out, size);
    return out;
}

static char *pack(const struct object *rule)
{
    size_t size = PROPERTIES + 1;
    char *out;

    for (int i = 0; i < PROPERTIES; i++) size += strlen(rule->values[i]);
    out = calloc(1, size);
    for (int i = 0; i < PROPERTIES; i++)
    {
        if (i) strcat(out, UNIT);
        strcat(out, rule->values[i]);
    }
    return out;
}

static struct object *unpack(const char *text)
{
    struct object *rule = make(RULE);
    const char *end;

    rule->stored = _strdup(text);
    for (int i = 0; i < PROPERTIES; i++, text = end + 1)
    {
        end = strchr(text, UNIT[0]);
        if (!end) end = text + strlen(text);
        free(rule->values[i]);
        rule->values[i] = calloc(1, end - text + 1);
        memcpy(rule->values[i], text, end - text);
        if (!*end) break;
    }
    return rule;
}

/* tell sends a change of the collection. */
static HRESULT tell(const char *verb, const char *first, const char *second)
{
    size_t size = strlen(verb) + strlen(first) + strlen(second) + 3;
    char *message = malloc(size), *answer;

    snprintf(message, size, "%s\n%s\n%s", verb, first, second);
    answer = bed_call(message);
    free(message);
    if (!answer) return HRESULT_FROM_WIN32(ERROR_SERVICE_NOT_ACTIVE);
    free(answer);
    return S_OK;
}

static HRESULT rule_invoke(struct object *rule, int at, WORD flags, const DISPPARAMS *in, VARIANT *out)
{
    char *packed;
    HRESULT status = S_OK;

    if (flags & DISPATCH_PROPERTYPUT)
    {
        if (in->cArgs != 1) return DISP_E_BADPARAMCOUNT;
        free(rule->values[at]);
        rule->values[at] = text_of(in->rgvarg);
        if (!rule->stored) return S_OK;
        packed = pack(rule);
        status = tell("replace-rule", rule->stored, packed);
        free(rule->stored);
        rule->stored = packed;
        return status;
    }
    if (!out) return E_POINTER;
    V_VT(out) = rule_types[at];
    switch (rule_types[at])
    {
    case VT_BSTR: V_BSTR(out) = bstr_of(rule->values[at]); break;
    case VT_BOOL: V_BOOL(out) = rule->values[at][0] == '1' ? VARIANT_TRUE : VARIANT_FALSE; break;
    default: V_I4(out) = atoi(rule->values[at]);
    }
    return S_OK;
}

/* all returns the rules, of which each is the caller's. */
static int all(struct object ***out)
{
    char message[] = "rules", *answer = bed_call(message), *next;
    int count = 0;

    *out = NULL;
    for (char *p = answer; p && *p; p = next)
    {
        next = strchr(p, RECORD[0]);
        if (next) *next++ = 0;
        *out = realloc(*out, (count + 1) * sizeof **out);
        (*out)[count++] = unpack(p);
    }
    free(answer);
    return count;
}

static HRESULT item(const char *name, VARIANT *out)
{
    HRESULT status = HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
    struct object **rules;
    int count = all(&rules);

    for (int i = 0; i < count; i++)
    {
        if (FAILED(status) && out && !strcmp(rules[i]->values[0], name))
        {
            V_VT(out) = VT_DISPATCH;
            V_DISPATCH(out) = &rules[i]->dispatch;
            status = S_OK;
        }
        else IDispatch_Release(&rules[i]->dispatch);
    }
    free(rules);
    return status;
}

/* The enumeration of the collection. */
struct list
{
    IEnumVARIANT enumeration;
    LONG references;
    struct object **rules;
    int count, at;
};

static struct list *list_of(IEnumVARIANT *e) { return (struct list *)e; }

static HRESULT WINAPI list_query(IEnumVARIANT *e, REFIID id, void **out)
{
    *out = NULL;
    if (!IsEqualIID(id, &IID_IUnknown) && !IsEqualIID(id, &IID_IEnumVARIANT)) return E_NOINTERFACE;
    *out = e;
    IEnumVARIANT_AddRef(e);
    return S_OK;
}

static ULONG WINAPI list_add_ref(IEnumVARIANT *e) { return InterlockedIncrement(&list_of(e)->references); }

static ULONG WINAPI list_release(IEnumVARIANT *e)
{
    struct list *l = list_of(e);
    LONG left = InterlockedDecrement(&l->references);

    if (left) return left;
    for (int i = 0; i < l->count; i++) IDispatch_Release(&l->rules[i]->dispatch);
    free(l->rules);
    free(l);
    return 0;
}

static HRESULT WINAPI list_next(IEnumVARIANT *e, ULONG want, VARIANT *out, ULONG *got)
{
    struct list *l = list_of(e);
    ULONG n = 0;

    for (; n < want && l->at < l->count; n++, l->at++)
    {
        V_VT(&out[n]) = VT_DISPATCH;
        V_DISPATCH(&out[n]) = &l->rules[l->at]->dispatch;
        IDispatch_AddRef(V_DISPATCH(&out[n]));
    }
    if (got) *got = n;
    return n == want ? S_OK : S_FALSE;
}

static HRESULT WINAPI list_skip(IEnumVARIANT *e, ULONG n) { list_of(e)->at += n; return S_OK; }
static HRESULT WINAPI list_reset(IEnumVARIANT *e) { list_of(e)->at = 0; return S_OK; }
static HRESULT WINAPI list_clone(IEnumVARIANT *e, IEnumVARIANT **out) { return E_NOTIMPL; }

static IEnumVARIANTVtbl list_table = {list_query, list_add_ref, list_release, list_next, list_skip, list_reset, list_clone};

static HRESULT enumeration(VARIANT *out)
{
    struct list *l = calloc(1, sizeof *l);

    l->enumeration.lpVtbl = &list_table;
    l->references = 1;
    l->count = all(&l->rules);
    V_VT(out) = VT_UNKNOWN;
    V_UNKNOWN(out) = (IUnknown *)&l->enumeration;
    return S_OK;
}

static HRESULT add(struct object *rule)
{
    char *packed = pack(rule);
    HRESULT status = tell("add-rule", packed, "");

    free(packed);
    return status;
}

static HRESULT count_rules(VARIANT *out)
{
    struct object **rules;

    V_VT(out) = VT_I4;
    V_I4(out) = all(&rules);
    for (int i = 0; i < V_I4(out); i++) IDispatch_Release(&rules[i]->dispatch);
    free(rules);
    return S_OK;
}

static HRESULT with_name(DISPID member, const DISPPARAMS *in, VARIANT *out)
{
    char *name = text_of(in->rgvarg);
    HRESULT status = member == MEMBER_ITEM ? item(name, out) : tell("remove-rule", name, "");

    free(name);
    return status;
}

static HRESULT rules_invoke(DISPID member, const DISPPARAMS *in, VARIANT *out)
{
    switch (member)
    {
    case DISPID_NEWENUM: return enumeration(out);
    case MEMBER_COUNT: return count_rules(out);
    case MEMBER_ADD:
        if (in->cArgs != 1 || V_VT(in->rgvarg) != VT_DISPATCH) return DISP_E_TYPEMISMATCH;
        return add(self(V_DISPATCH(in->rgvarg)));
    case MEMBER_REMOVE:
    case MEMBER_ITEM: return in->cArgs == 1 ? with_name(member, in, out) : DISP_E_BADPARAMCOUNT;
    }
    return DISP_E_MEMBERNOTFOUND;
}

static HRESULT WINAPI invoke(IDispatch *d, DISPID member, REFIID id, LCID l, WORD flags, DISPPARAMS *in, VARIANT *out, EXCEPINFO *e, UINT *bad)
{
    struct object *o = self(d);

    if (out) VariantInit(out);
    if (o->kind == RULE) return member > 0 && member <= PROPERTIES ? rule_invoke(o, member - 1, flags, in, out) : DISP_E_MEMBERNOTFOUND;
    if (o->kind == RULES) return rules_invoke(member, in, out);
    if (member != MEMBER_RULES || !out) return DISP_E_MEMBERNOTFOUND;
    V_VT(out) = VT_DISPATCH;
    V_DISPATCH(out) = &make(RULES)->dispatch;
    return S_OK;
}

static IDispatchVtbl table = {query, add_ref, release, type_count, type_info, ids, invoke};

static struct object *make(enum kind kind)
{
    struct object *o = calloc(1, sizeof *o);

    o->dispatch.lpVtbl = &table;
    o->references = 1;
    o->kind = kind;
    for (int i = 0; i < PROPERTIES; i++) o->values[i] = _strdup(rule_defaults[i]);
    return o;
}

/* One factory a class; they live for ever. */
static HRESULT WINAPI factory_query(IClassFactory *f, REFIID id, void **out)
{
    *out = f;
    return IsEqualIID(id, &IID_IUnknown) || IsEqualIID(id, &IID_IClassFactory) ? S_OK : E_NOINTERFACE;
}

static ULONG WINAPI factory_count(IClassFactory *f) { return 2; }
static HRESULT WINAPI factory_lock(IClassFactory *f, BOOL lock) { return S_OK; }

static HRESULT create(enum kind kind, REFIID id, void **out)
{
    struct object *o = make(kind);
    HRESULT status = query(&o->dispatch, id, out);

    release(&o->dispatch);
    return status;
}

static HRESULT WINAPI create_policy(IClassFactory *f, IUnknown *outer, REFIID id, void **out) { return create(POLICY, id, out); }
static HRESULT WINAPI create_rule(IClassFactory *f, IUnknown *outer, REFIID id, void **out) { return create(RULE, id, out); }

static IClassFactoryVtbl policy_table = {factory_query, factory_count, factory_count, create_policy, factory_lock};
static IClassFactoryVtbl rule_table = {factory_query, factory_count, factory_count, create_rule, factory_lock};
static IClassFactory policy_factory = {&policy_table}, rule_factory = {&rule_table};

HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID id, void **out)
{
    if (IsEqualCLSID(class, &CLSID_Policy2)) return factory_query(&policy_factory, id, out);
    if (IsEqualCLSID(class, &CLSID_Rule)) return factory_query(&rule_factory, id, out);
    *out = NULL;
    return CLASS_E_CLASSNOTAVAILABLE;
}

HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
