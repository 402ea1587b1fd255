/* SPDX-License-Identifier: MIT
 * Traces as other people hand them over: raw bytes and a page dump.
 *   judge-foreign export RECORDING OUT   OUT.pt, OUT.addr, OUT.dump: the first stream, and all executable pages of its process
 *   judge-foreign ipt TRACE DUMP F/M/S   libipt's instructions of TRACE over DUMP.addr and DUMP.dump, a line each (the form of
 *                                        cofi flow --format=ip); errors on standard error; from each on at the next PSB */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <intel-pt.h>

#include <cofi/image.h>
#include <cofi/trace.h>

enum { PAGE = 4096 };

static void *whole(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*n ? *n : 1);
    if (!bytes || fread(bytes, 1, *n, file) != *n)
        exit(2);
    fclose(file);
    return bytes;
}

static FILE *create(const char *base, const char *ending)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", base, ending);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(2);
    }
    return file;
}

/* ---- export ---- */

static void export_page(struct cofi_view *view, uint64_t page, FILE *addresses, FILE *pages)
{
    uint8_t bytes[PAGE] = {0};
    struct cofi_code code;
    bool any = false;
    for (uint64_t at = page; at < page + PAGE; at++) {
        if (cofi_view_find(view, at, &code) < 0)
            continue;
        bytes[at - page] = code.bytes[at - code.start];
        any = true;
    }
    for (int i = 0; any && i < 8; i++)
        fputc((int)(page >> 8 * i & 0xff), addresses);
    if (any)
        fwrite(bytes, 1, PAGE, pages);
}

static int export(const char *path, const char *out)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    struct cofi_view *view;
    const struct cofi_sideband *sb;
    if (cofi_recording_open(&recording, path, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    FILE *trace = create(out, ".pt"), *addresses = create(out, ".addr"), *pages = create(out, ".dump");
    const uint8_t *bytes;
    for (size_t at = 0, n; (bytes = cofi_recording_bytes(recording, 0, at, &n)) && n; at += n)
        fwrite(bytes, 1, n, trace);
    int32_t pid = cofi_recording_stream(recording, 0)->pid;
    if (cofi_view_open(&view, cofi_recording_image(recording, pid)) < 0)
        return 2;
    cofi_view_advance(view, UINT64_MAX - 1, NULL, NULL);
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->pid == pid && (sb->kind == COFI_SB_MMAP || sb->kind == COFI_SB_CODE) && (sb->kind == COFI_SB_CODE || sb->prot & 4))
            for (uint64_t page = sb->addr & ~(uint64_t)(PAGE - 1); page < sb->addr + sb->len; page += PAGE)
                export_page(view, page, addresses, pages);
    cofi_view_close(view);
    cofi_recording_close(recording);
    return fclose(trace) || fclose(addresses) || fclose(pages) ? 2 : 0;
}

/* ---- libipt ---- */

struct dump {
    const uint64_t *addresses;
    const uint8_t *pages;
    size_t n;
};

/* The last page of an address counts, as later mappings do. */
static const uint8_t *page_at(const struct dump *dump, uint64_t page)
{
    for (size_t i = dump->n; i-- > 0;)
        if (dump->addresses[i] == page)
            return dump->pages + i * PAGE;
    return NULL;
}

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip, void *context)
{
    size_t got = 0;
    (void)asid;
    while (got < size) {
        uint64_t at = ip + got, page = at & ~(uint64_t)(PAGE - 1);
        const uint8_t *bytes = page_at(context, page);
        if (!bytes)
            break;
        buffer[got++] = bytes[at - page];
    }
    return got ? (int)got : -pte_nomap;
}

static int drain(struct pt_insn_decoder *decoder, int status)
{
    while (status >= 0 && (status & pts_event_pending)) {
        struct pt_event event;
        status = pt_insn_event(decoder, &event, sizeof event);
    }
    return status;
}

static unsigned decode(struct pt_insn_decoder *decoder)
{
    unsigned errors = 0;
    for (int status = pt_insn_sync_forward(decoder); status >= 0; status = pt_insn_sync_forward(decoder)) {
        struct pt_insn insn = {0};
        while ((status = drain(decoder, status)) >= 0 && !(status & pts_eos)) {
            status = pt_insn_next(decoder, &insn, sizeof insn);
            if (insn.iclass != ptic_error)
                printf("%016" PRIx64 "\n", insn.ip);
            if (status < 0)
                break;
        }
        if (status >= 0 || status == -pte_eos)
            break;
        uint64_t offset = 0;
        pt_insn_get_offset(decoder, &offset);
        fprintf(stderr, "+0x%" PRIx64 " at %016" PRIx64 ": %s\n", offset, insn.ip, pt_errstr(pt_errcode(status)));
        errors++;
    }
    return errors;
}

static int ipt(const char *trace, const char *base, const char *cpu)
{
    char path[4096];
    size_t n, dump_n;
    struct pt_config config;
    struct dump dump;
    unsigned family, model, stepping;
    pt_config_init(&config);
    config.begin = whole(trace, &n);
    config.end = config.begin + n;
    snprintf(path, sizeof path, "%s.addr", base);
    dump.addresses = whole(path, &dump.n);
    dump.n /= 8;
    snprintf(path, sizeof path, "%s.dump", base);
    dump.pages = whole(path, &dump_n);
    if (sscanf(cpu, "%u/%u/%u", &family, &model, &stepping) != 3)
        return 2;
    config.cpu = (struct pt_cpu){pcv_intel, (uint16_t)family, (uint8_t)model, (uint8_t)stepping};
    pt_cpu_errata(&config.errata, &config.cpu);
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    pt_image_set_callback(pt_insn_get_image(decoder), read_code, &dump);
    unsigned errors = decode(decoder);
    pt_insn_free_decoder(decoder);
    return errors != 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "export"))
        return export(argv[2], argv[3]);
    if (argc == 5 && !strcmp(argv[1], "ipt"))
        return ipt(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: judge-foreign export RECORDING OUT | ipt TRACE DUMP F/M/S\n");
    return 2;
}
