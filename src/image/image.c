/* SPDX-License-Identifier: MIT
 * Mappings, each from a time on -> one list of changes in time order. */
#include "image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"

int cofi__image_open_in(struct cofi_image **image, struct cofi__store *store)
{
    struct cofi_image *made = calloc(1, sizeof *made);
    struct cofi__store **stores = malloc(sizeof *stores);
    if (!made || !stores || !store) {
        free(made);
        free(stores);
        return COFI_ERR_NOMEM;
    }
    stores[0] = cofi__store_ref(store);
    made->stores = stores;
    made->n_stores = 1;
    *image = made;
    return 0;
}

int cofi_image_open(struct cofi_image **image)
{
    struct cofi__store *store = cofi__store_open();
    int status = cofi__image_open_in(image, store);
    cofi__store_unref(store);
    return status;
}

void cofi_image_close(struct cofi_image *image)
{
    if (!image)
        return;
    for (size_t i = 0; i < image->n_stores; i++)
        cofi__store_unref(image->stores[i]);
    free(image->stores);
    free(image->changes);
    free(image->turns);
    cofi__image_names_free(image);
    free(image);
}

void cofi__image_set_kernel(struct cofi_image *image, const struct cofi_image *kernel)
{
    image->kernel = kernel;
}

int cofi__image_turn(struct cofi_image *image, uint64_t time_ns, const struct cofi_image *to)
{
    if (image->n_turns && image->turns[image->n_turns - 1].image == to)
        return 0;
    COFI_TRY(cofi__array_grow(&image->turns, &image->turns_room, image->n_turns, sizeof *image->turns));
    image->turns[image->n_turns++] = (struct cofi__turn){time_ns, to};
    return 0;
}

int cofi__image_add(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len,
                    struct cofi__source *source, uint64_t pgoff)
{
    if (!len)
        return 0;
    if (addr + len == 0)
        len--; /* the last byte of all cannot be shown: ends are exclusive */
    if (addr + len < addr || pgoff + len < pgoff)
        return COFI_ERR_RANGE;
    COFI_TRY(cofi__array_grow(&image->changes, &image->room, image->n, sizeof *image->changes));
    size_t at = image->n;
    while (at > 0 && image->changes[at - 1].time_ns > time_ns)
        at--;
    memmove(&image->changes[at + 1], &image->changes[at], (image->n - at) * sizeof *image->changes);
    image->changes[at] = (struct cofi__change){time_ns, addr, len, pgoff, source};
    image->n++;
    return 0;
}

static int hold_store(struct cofi_image *image, struct cofi__store *store)
{
    for (size_t i = 0; i < image->n_stores; i++)
        if (image->stores[i] == store)
            return 0;
    void *stores = realloc(image->stores, (image->n_stores + 1) * sizeof *image->stores);
    if (!stores)
        return COFI_ERR_NOMEM;
    image->stores = stores;
    image->stores[image->n_stores++] = cofi__store_ref(store);
    return 0;
}

int cofi__image_fork_table(struct cofi_image *image, const struct cofi__table *parent, uint64_t time_ns)
{
    for (size_t i = 0; i < parent->image->n_stores; i++)
        COFI_TRY(hold_store(image, parent->image->stores[i]));
    struct cofi__place place = {0};
    for (const struct cofi__segment *s; (s = cofi__segments_next(&parent->segments, &place));)
        COFI_TRY(cofi__image_add(image, time_ns, s->start, s->end - s->start, s->source, s->pgoff));
    if (!image->kernel)
        image->kernel = parent->image->kernel;
    return 0;
}

int cofi_image_fork(struct cofi_image *image, const struct cofi_image *parent, uint64_t time_ns)
{
    struct cofi__table table = {.image = parent};
    int status = cofi__table_forward(&table, time_ns);
    if (status >= 0)
        status = cofi__image_fork_table(image, &table, time_ns);
    cofi__segments_free(&table.segments);
    return status;
}

int cofi_image_clear(struct cofi_image *image, uint64_t time_ns)
{
    return cofi__image_add(image, time_ns, 0, UINT64_MAX, NULL, 0);
}

int cofi_image_unmap(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len)
{
    return cofi__image_add(image, time_ns, addr, len, NULL, 0);
}

int cofi_image_map_file(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len,
                        const char *path, uint64_t pgoff, const uint8_t *build_id, size_t build_id_size)
{
    if (build_id_size > COFI__BUILD_ID_MAX)
        return COFI_ERR_RANGE;
    return cofi__image_map_file_at(image, time_ns, addr, len, path, NULL, pgoff, build_id, build_id_size);
}

int cofi__image_map_file_at(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len, const char *path,
                            const char *file, uint64_t pgoff, const uint8_t *build_id, size_t build_id_size)
{
    struct cofi__source *source = cofi__store_file(image->stores[0], path, file, build_id, build_id_size);
    return source ? cofi__image_add(image, time_ns, addr, len, source, pgoff) : COFI_ERR_NOMEM;
}

int cofi_image_map_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr,
                         const uint8_t *bytes, size_t len, const char *label)
{
    struct cofi__source *source = cofi__store_bytes(image->stores[0], bytes, len, label, false);
    return source ? cofi__image_add(image, time_ns, addr, len, source, 0) : COFI_ERR_NOMEM;
}

int cofi__image_borrow_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr, const uint8_t *bytes,
                             size_t len, const char *label)
{
    struct cofi__source *source = cofi__store_bytes(image->stores[0], bytes, len, label, true);
    if (source)
        source->since_ns = time_ns;
    return source ? cofi__image_add(image, time_ns, addr, len, source, 0) : COFI_ERR_NOMEM;
}

int cofi__image_named_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr, const uint8_t *bytes, size_t len,
                            const char *name)
{
    struct cofi__source *source = cofi__store_bytes(image->stores[0], bytes, len, name, false);
    if (source)
        source->is_function = true;
    return source ? cofi__image_add(image, time_ns, addr, len, source, 0) : COFI_ERR_NOMEM;
}
