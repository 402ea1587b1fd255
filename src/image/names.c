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

enum { LOOKED_AT = 256, APART_NS = 10000000 /* so far two clocks may have gone apart */ };

/* Of names for one address, the last one given by then; of ranges that overlap, the one that starts nearest. */
const struct cofi__name *cofi__image_name_at(const struct cofi_image *image, uint64_t time_ns, uint64_t addr)
{
    const struct cofi__names *names = &image->names;
    const struct cofi__name *soon = NULL;
    size_t n = cofi__array_upper_bound(names->rows, names->n, sizeof *names->rows, offsetof(struct cofi__name, addr), addr);
    for (size_t i = n; i > 0 && n - i < LOOKED_AT; i--) {
        const struct cofi__name *name = &names->rows[i - 1];
        if (addr - name->addr >= name->size)
            continue;
        if (name->time_ns <= time_ns)
            return name;
        if (name->time_ns - time_ns <= APART_NS)
            soon = name;
    }
    return soon;
}

void cofi__image_names_free(struct cofi_image *image)
{
    for (size_t i = 0; i < image->names.n; i++)
        free(image->names.rows[i].text);
    free(image->names.rows);
}
