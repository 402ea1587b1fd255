/* SPDX-License-Identifier: MIT
 * Names that somebody gave to addresses of code that no file holds. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "image/image.h"

int cofi__image_name(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t size, const char *name)
{
    struct cofi__names *names = &image->names;
    COFI_TRY(cofi__array_grow(&names->rows, &names->room, names->n, sizeof *names->rows));
    char *copy = strdup(name);
    if (!copy)
        return COFI_ERR_NOMEM;
    names->rows[names->n] = (struct cofi__name){addr, size, time_ns, names->n, copy};
    names->n++;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct cofi__name *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void cofi__image_names_done(struct cofi_image *image)
{
    if (image->names.n)
        qsort(image->names.rows, image->names.n, sizeof *image->names.rows, by_address);
}

int cofi__image_names_era(struct cofi_image *image, uint64_t since_ns, const struct cofi_image *parent)
{
    struct cofi__names *names = &image->names;
    COFI_TRY(cofi__array_grow(&names->eras, &names->eras_room, names->n_eras, sizeof *names->eras));
    names->eras[names->n_eras++] = (struct cofi__era){since_ns, parent};
    return 0;
}

enum { LOOKED_AT = 256, APART_NS = 10000000 /* so far two clocks may have gone apart */ };

static bool is_of(const struct cofi__name *name, uint64_t since_ns, uint64_t until_ns)
{
    return !name->time_ns || (name->time_ns >= since_ns && name->time_ns < until_ns);
}

/* Of names for one address, the last one given by then in an era; of ranges that overlap, the one that
 * starts nearest. */
static const struct cofi__name *find(const struct cofi__names *names, uint64_t since_ns, uint64_t until_ns,
                                     uint64_t time_ns, uint64_t addr)
{
    const struct cofi__name *soon = NULL;
    size_t n = cofi__array_upper_bound(names->rows, names->n, sizeof *names->rows, offsetof(struct cofi__name, addr),
                                       addr);
    for (size_t i = n; i > 0 && n - i < LOOKED_AT; i--) {
        const struct cofi__name *name = &names->rows[i - 1];
        if (addr - name->addr >= name->size || !is_of(name, since_ns, until_ns))
            continue;
        if (name->time_ns <= time_ns)
            return name;
        if (name->time_ns - time_ns <= APART_NS)
            soon = name;
    }
    return soon;
}

/* Code that was there when the parent made this image, and has no name of the image's own, has the
 * parent's. New code has not: a JIT that begins anew in a child puts it where the parent's was. A parent
 * is asked for a time before its child's era, so this ends even where numbers of processes came again. */
const struct cofi__name *cofi__image_name_at(const struct cofi_image *image, uint64_t now_ns, uint64_t time_ns,
                                             uint64_t addr)
{
    const struct cofi__name *name = NULL;
    while (image && !name) {
        const struct cofi__names *names = &image->names;
        size_t n = cofi__array_upper_bound(names->eras, names->n_eras, sizeof *names->eras,
                                           offsetof(struct cofi__era, since_ns), now_ns);
        uint64_t since_ns = n ? names->eras[n - 1].since_ns : 0;
        name = find(names, since_ns, n < names->n_eras ? names->eras[n].since_ns : UINT64_MAX, time_ns, addr);
        image = time_ns < since_ns ? names->eras[n - 1].parent : NULL;
        now_ns = since_ns - 1;
    }
    return name;
}

void cofi__image_names_free(struct cofi_image *image)
{
    for (size_t i = 0; i < image->names.n; i++)
        free(image->names.rows[i].text);
    free(image->names.rows);
    free(image->names.eras);
}
