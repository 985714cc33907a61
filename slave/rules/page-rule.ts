/** Name of the rows of a page function, unless it names them. Apart from the function,
 *  whose tree is for the child alone. */
export const pageRule = 'page';
